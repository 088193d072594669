"""What a module may import, what the package loads at once, and what it finds when asked."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pastmaster

PACKAGE = Path(pastmaster.__file__).parent
ORDER = (
    "texts", "errors", "tables", "arrays", "files", "npy", "checks", "generators", "shield", "compiled",
    "figures",
    "parallel", "environments", "tasks", "policies", "solving", "values", "clustering", "estimation", "reuse",
    "keeping", "testing", "repository", "continual", "service", "client", "domains", "report", "cli",
    "__main__",
)  # fmt: skip


def modules() -> dict[str, list[Path]]:
    """The top modules and packages of pastmaster, with their files."""
    found: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        top = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if top != "__init__":
            found.setdefault(top, []).append(path)
    return found


def imported(source: str) -> set[str]:
    """The top modules of pastmaster that a source imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("pastmaster.")}


def test_every_module_has_its_place_in_the_order():
    assert set(modules()) == set(ORDER)


@pytest.mark.parametrize("module", ORDER)
def test_a_module_imports_only_from_those_before_it(module):
    before = set(ORDER[: ORDER.index(module)])
    for path in modules()[module]:
        assert imported(path.read_text()) - {module} <= before, path


def test_the_rule_sees_every_way_of_importing():
    source = (
        "import pastmaster.values\nfrom pastmaster import solve as s\n"
        "def f():\n    from pastmaster.tasks.tabular import TabularMDP\n"
    )
    assert imported(source) == {"values", "solve", "tasks"}
    assert imported("import numpy\nfrom __future__ import annotations") == set()


def test_kernels_need_only_the_decorator():
    for path in sorted(PACKAGE.rglob("_*kernels.py")):
        room = path.parent.name
        allowed = {"arrays", "compiled", room} | ({"solving"} if room == "values" else set())
        assert imported(path.read_text()) <= allowed, path


HEAVY = (
    "alembic", "cloudpickle", "dask", "jax", "joblib", "llvmlite", "matplotlib", "numba", "onnxruntime",
    "pandas", "plotly", "prometheus_client", "pydantic", "ray", "rich", "scipy", "sqlalchemy", "stable_baselines3",
    "torch",
)  # fmt: skip
"""Packages that take long to import: they are loaded by what uses them."""


@pytest.mark.parametrize("module", ["pastmaster", "pastmaster.cli"])
def test_importing_loads_nothing_heavy_and_registers_the_environments(module):
    script = (
        f"import sys, {module}, gymnasium\n"
        f"assert not (heavy := [name for name in {HEAVY} if name in sys.modules]), heavy\n"
        "print(sorted(name for name in gymnasium.registry if name.startswith('pastmaster/')))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = ["CartPole", "ColouredGrid", "JaxCartPole", "Surveillance", "Tabular", "WindyCorridor"]
    assert done.stdout.strip() == str([f"pastmaster/{name}-v0" for name in names])


def test_every_public_name_is_there():
    for name in pastmaster.__all__:
        assert hasattr(pastmaster, name)
    assert len(set(pastmaster.__all__)) == len(pastmaster.__all__)


@pytest.mark.parametrize(
    "room", ["client", "clustering", "continual", "domains", "estimation", "parallel", "report", "reuse", "service"]
)
def test_a_room_is_found_without_being_imported_by_name(room):
    assert pastmaster.__getattr__(room) is importlib.import_module(f"pastmaster.{room}")
    assert callable(pastmaster.solve)
