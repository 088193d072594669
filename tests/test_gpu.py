"""benchmarks/gpu.py runs where there is nothing but JAX and NumPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "gpu.py"
ABSENT = ("numba", "gymnasium", "pastmaster", "sqlalchemy", "alembic", "joblib", "cloudpickle", "matplotlib", "torch")


@pytest.mark.soak
def test_the_benchmark_needs_jax_and_numpy_alone():
    script = (
        "import runpy, sys\n"
        f"sys.modules.update(dict.fromkeys({ABSENT}))\n"
        f"sys.path[0] = {str(SCRIPT.parent)!r}\n"
        f"sys.argv = ['gpu.py', '--tasks', '3', '--policies', '2', '--episodes', '4', '--horizon', '6']\n"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| 3 variants x 2 networks x 4 episodes x 6 steps, to the end |" in done.stdout
    assert "| 144 |" in done.stdout
    assert "All 24 returns are the same in batches of another size, bit for bit." in done.stdout
