"""Compiled equals plain, bit for bit: this file, run as a script, prints the bits of everything the kernels compute.

``NUMBA_DISABLE_JIT=1`` makes every kernel the Python function it is written as.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import reference

import pastmaster
from pastmaster import TabularMDP, cross_values, evaluate, return_bounds, solve
from pastmaster.compiled import kernel

NUMBA_IS_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"


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


def bits(seed: int) -> Iterator[str]:
    """One line for each array: which, and its bytes in hex."""
    rng = np.random.default_rng(seed)
    for n_outcomes in (None, 3):
        for horizon in (None, 7, 150):
            for n_states, gamma, reach in ((1, 0.9, None), (7, 0.5, None), (20, 0.99, 2), (60, 0.8, 3)):
                mdp = reference.random_mdp(
                    rng, n_states, 3, n_outcomes, gamma=gamma, horizon=horizon, reach=reach, ending=0.05
                )
                for name, array in numbers(mdp, rng).items():
                    yield f"{n_outcomes},{horizon},{n_states},{gamma},{name},{array.tobytes().hex()}"
    for length in (1, 3, 10):  # long laps round a cycle: powers of gamma
        ring = (np.arange(length)[:, None] + 1) % length
        for horizon in (None, 1, 100, 101, 1003):
            mdp = TabularMDP(ring, rng.normal(size=(length, 1)), gamma=0.99, horizon=horizon)
            U = cross_values([mdp], [np.zeros(length, int)])
            yield f"ring,{length},{horizon},{U.tobytes().hex()}"
    yield f"compiled,{hasattr(kernel(numbers), 'py_func')}"


@pytest.fixture(scope="module")
def compiled_bits(seed) -> list[str]:
    if NUMBA_IS_OFF:
        pytest.skip("nothing is compiled where NUMBA_DISABLE_JIT says so")
    return list(bits(seed))


def test_compiled_equals_plain_bit_for_bit(compiled_bits, seed):
    plain = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, __file__, str(seed)], env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plain_bits = done.stdout.splitlines()
    assert (plain_bits[-1], compiled_bits[-1]) == ("compiled,False", "compiled,True")  # two different things ran
    assert len(plain_bits) == 2 * 3 * 4 * 8 + 15 + 1
    pairs = zip(plain_bits[:-1], compiled_bits[:-1], strict=True)
    assert not [plain[:60] for plain, compiled in pairs if plain != compiled]


def test_the_same_seed_gives_the_same_bits_and_another_others(compiled_bits, seed):
    assert list(bits(seed)) == compiled_bits
    others = bits(seed + 1)
    assert not any(one == other for one, other in zip(compiled_bits, others, strict=False) if ",value," in one)


ANNOUNCED = """
import sys
from multiprocessing import get_context
from numba import njit
from pastmaster.compiled import kernel

def one(x):
    return x + 1

def other(x):
    return x + 2

one.__module__ = other.__module__ = "pastmaster.mine"

def work():
    assert kernel(other)(1) == 3

if __name__ == "__main__":
    njit(lambda x: x)(1)
    print("mine is compiled", file=sys.stderr)
    worker = get_context("spawn").Process(target=work)
    worker.start()
    worker.join()
    print("a worker compiled", worker.exitcode, file=sys.stderr)
    kernel(one)(1)
    kernel(one)(2.5)
"""


def test_a_program_says_once_that_our_kernels_are_compiled(tmp_path):
    """Not where a person's own function is, and not in a worker."""
    script = tmp_path / "script.py"
    script.write_text(ANNOUNCED)
    environment = os.environ | {"NUMBA_DISABLE_JIT": "0", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    announced = "pastmaster: compiling (first run on this machine only, under a minute)"
    assert done.stderr.splitlines() == ["mine is compiled", "a worker compiled 0", announced]


def test_what_is_found_compiled_is_not_announced():
    keeps = "from pastmaster import keep\nkeep([[1.0, 2.0], [2.0, 1.0]], k=1, rng=0)\n"
    exec(keeps)
    done = subprocess.run([sys.executable, "-c", keeps], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


UNCACHED = """
import warnings
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import pastmaster
    from pastmaster import solving, values
    from pastmaster.compiled import kernel
print(pastmaster.__file__)
print([str(w.message) for w in found if issubclass(w.category, RuntimeWarning)])
print(kernel(lambda x: x + 1)(1))
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
    assert result == "2"

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
    assert run() == ["22", "0"]
    (package / "inner.py").write_text(inner.replace("2 * x", "3 * x"))
    assert run() == ["32", "0"]


if __name__ == "__main__":
    print(*bits(int(sys.argv[1])), sep="\n")
