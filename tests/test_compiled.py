"""Compiled equals plain, bit for bit: this file, run as a script, prints the bits of everything the kernels compute.

``NUMBA_DISABLE_JIT=1`` makes every kernel the Python function it is written as.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference

import pastmaster
from pastmaster import TabularMDP, cross_values, evaluate, return_bounds, solve
from pastmaster.compiled import kernel


def numbers(mdp: TabularMDP, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Everything the kernels compute about one task."""
    solution = solve(mdp)
    policies = [reference.random_policy(rng, mdp, mixed=mixed) for mixed in (False, True, False, True)]
    twin = TabularMDP(
        mdp.next_state, 2 * mdp.reward, probability=mdp.probability, terminated=mdp.terminated,
        gamma=mdp.gamma, start=mdp.start, horizon=mdp.horizon,
    )  # fmt: skip
    windier = TabularMDP(
        mdp.next_state, mdp.reward, terminated=mdp.terminated, gamma=mdp.gamma, start=mdp.start, horizon=mdp.horizon,
        probability=None if mdp.probability is None else np.flip(mdp.probability, axis=2),
    )  # fmt: skip
    return {
        "value": solution.value,
        "policy": solution.policy,
        "solution": np.array([solution.start_value, solution.iterations, solution.error_bound]),
        "evaluate": np.stack([evaluate(mdp, policy) for policy in policies]),
        "cross values": cross_values([mdp], policies),
        "shared cross values": cross_values([mdp, twin], policies),
        "stacked cross values": cross_values([mdp, windier], policies),
        "bounds": np.array(return_bounds(mdp)),
    }


def print_bits(seed: int) -> None:
    """One line for each array: which, and its bytes in hex."""
    rng = np.random.default_rng(seed)
    for n_outcomes in (None, 3):
        for horizon in (None, 7, 150):
            for n_states, gamma, reach in ((1, 0.9, None), (7, 0.5, None), (40, 0.99, 2), (130, 0.8, 3)):
                mdp = reference.random_mdp(
                    rng, n_states, 3, n_outcomes, gamma=gamma, horizon=horizon, reach=reach, ending=0.05
                )
                for name, array in numbers(mdp, rng).items():
                    print(n_outcomes, horizon, n_states, gamma, name, array.tobytes().hex(), sep=",")
    for length in (1, 3, 10):  # long laps round a cycle: powers of gamma
        ring = (np.arange(length)[:, None] + 1) % length
        for horizon in (None, 1, 100, 101, 1003):
            mdp = TabularMDP(ring, rng.normal(size=(length, 1)), gamma=0.99, horizon=horizon)
            U = cross_values([mdp], [np.zeros(length, int)])
            print("ring", length, horizon, U.tobytes().hex(), sep=",")
    print("compiled", hasattr(kernel(numbers), "py_func"), sep=",")


def bits(seed: int, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, __file__, str(seed)],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def compiled_bits(seed) -> list[str]:
    return bits(seed, NUMBA_DISABLE_JIT="0")


def test_compiled_equals_plain_bit_for_bit(compiled_bits, seed):
    plain_bits = bits(seed, NUMBA_DISABLE_JIT="1")
    assert (plain_bits[-1], compiled_bits[-1]) == ("compiled,False", "compiled,True")  # two different things ran
    assert len(plain_bits) == 2 * 3 * 4 * 8 + 15 + 1
    pairs = zip(plain_bits[:-1], compiled_bits[:-1], strict=True)
    assert not [plain[:60] for plain, compiled in pairs if plain != compiled]


def test_the_same_seed_gives_the_same_bits(compiled_bits, seed):
    assert bits(seed, NUMBA_DISABLE_JIT="0") == compiled_bits


def test_another_seed_gives_other_bits(compiled_bits, seed):
    others = bits(seed + 1, NUMBA_DISABLE_JIT="0")[:-1]
    assert not any(one == other for one, other in zip(compiled_bits, others, strict=False) if ",value," in one)


ANNOUNCED = """
from numba import njit
from pastmaster.compiled import kernel
__name__ = {module!r}
def one(x):
    return x + 1
{made}(one)(1)
"""


@pytest.mark.parametrize(
    ("made", "module", "announced"), [("njit", "mine", False), ("kernel", "pastmaster.mine", True)]
)
def test_only_our_own_kernels_are_announced(made, module, announced, tmp_path):
    """A first call says that it compiles, terminal or not, but not where a person's own function does."""
    script = tmp_path / "script.py"
    script.write_text(ANNOUNCED.format(made=made, module=module))
    environment = os.environ | {"NUMBA_DISABLE_JIT": "0", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("pastmaster: compiling" in done.stderr) == announced


KEEPS = """
from pastmaster import keep
print(keep([[1.0, 2.0], [2.0, 1.0]], k=1, rng=0))
"""


def test_the_first_keep_of_a_script_says_once_that_it_compiles(tmp_path):
    environment = os.environ | {"NUMBA_DISABLE_JIT": "0", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    script = [sys.executable, "-c", KEEPS]
    first, second = (
        subprocess.run(script, env=environment, capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert first.stderr == "pastmaster: compiling (first run on this machine only, under a minute)\n"
    assert second.stderr == ""


WORKER = """
import sys
from multiprocessing import get_context
from pastmaster import keep

def work():
    keep([[1.0, 2.0], [2.0, 1.0]], k=1, rng=0)

if __name__ == "__main__":
    worker = get_context("spawn").Process(target=work)
    worker.start()
    worker.join()
    sys.exit(worker.exitcode)
"""


def test_workers_do_not_say_that_they_compile(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WORKER)
    environment = os.environ | {"NUMBA_DISABLE_JIT": "0", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


UNCACHED = """
import warnings
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import pastmaster
    from pastmaster import clustering, estimation, policies, repository, reuse, solving, values
    from pastmaster.compiled import kernel
print(pastmaster.__file__)
print([str(w.message) for w in found if issubclass(w.category, RuntimeWarning)])
print(kernel(lambda x: x + 1)(1), pastmaster.regret_bound(2, 100, 1.0))
"""


def test_where_nothing_can_be_written_it_compiles_without_a_cache_and_says_so_once(tmp_path):
    """Files where folders should be: not even root can write a cache there."""
    package = tmp_path / "pastmaster"
    shutil.copytree(Path(pastmaster.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__pycache__").touch()
    nowhere = {"HOME": "/dev/null", "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    environment = kept | nowhere | {"NUMBA_DISABLE_JIT": "0"}
    script = [sys.executable, "-c", UNCACHED]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    place, said, result = done.stdout.splitlines()
    assert Path(place).parent == package
    assert said.count("compiled code cannot be kept") == 1
    assert "set NUMBA_CACHE_DIR to a folder of your own" in said
    assert result.startswith("2 ")

    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[1:] == ["[]", result], done.stderr


def test_a_cached_loop_is_compiled_anew_where_another_module_changed(tmp_path):
    """As after an upgrade: a loop whose own file is the same holds a constant and a loop of other files."""
    package = tmp_path / "pastmaster"
    shutil.copytree(Path(pastmaster.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "constants.py").write_text("VALUE = 1\n")
    inner = "from pastmaster.compiled import kernel\n@kernel\ndef twice(x):\n    return 2 * x\n"
    (package / "inner.py").write_text(inner)
    outer = "from pastmaster import constants, inner\nfrom pastmaster.compiled import kernel\n"
    (package / "outer.py").write_text(outer + "@kernel\ndef both():\n    return inner.twice(10) + constants.VALUE\n")
    script = "from pastmaster import outer; print(outer.both(), sum(outer.both.stats.cache_hits.values()))"
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment = kept | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}

    def run():
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert [run(), run()] == [["21", "0"], ["21", "1"]]
    (package / "constants.py").write_text("VALUE = 2\n")
    assert [run(), run()] == [["22", "0"], ["22", "1"]]
    (package / "inner.py").write_text(inner.replace("2 * x", "3 * x"))
    assert [run(), run()] == [["32", "0"], ["32", "1"]]


if __name__ == "__main__":
    print_bits(int(sys.argv[1]))
