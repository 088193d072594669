"""Cross values of CartPoles and networks as one JAX program: ``python benchmarks/gpu.py`` prints a table.

It needs JAX and NumPy, nothing else: the two modules of pastmaster that it measures are loaded from their files,
without the package around them. On a machine without a GPU it takes smaller numbers, unless told (``--help``).
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:] = [path for path in sys.path if Path(path).resolve() != HERE]  # selectors.py would hide Python's own

import jax  # noqa: E402
import numpy as np  # noqa: E402

SOURCE = HERE.parent / "src" / "pastmaster"
GAMMA = 0.99
HIDDEN = 32  # two layers, as the policies of examples/cart_poles.py have them


def loaded(name: str, path: str) -> Any:
    """A module of pastmaster by its file."""
    spec = importlib.util.spec_from_file_location(name, SOURCE / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


jp = loaded("jax_program", "estimation/jax_program.py")
jcp = loaded("jax_cart_pole", "domains/jax_cart_pole.py")
POLE = jcp.CartPole()
LAYERS = jp.Layers(("tanh", "tanh", "identity"))


def step(key: Any, state: Any, action: Any, params: Any) -> tuple[Any, Any, Any, Any]:
    observation, state, reward, over, _ = POLE.step(key, state, action, params)
    return observation, state, reward, over


def endless(key: Any, state: Any, action: Any, params: Any) -> tuple[Any, Any, Any, Any]:
    """A step after which the episode always goes on; the state stays bounded, so that it costs what others cost."""
    _, state, reward, over = step(key, state, action, params)
    kept = jcp.State(*(jax.numpy.where(over, 0.01, part) for part in state))
    return jax.numpy.stack(kept), kept, reward, over & False


@cache
def program(each: Callable[..., Any]) -> Any:
    """The compiled episodes of a step."""
    return jp.program(POLE.reset, each, LAYERS)


def variants(n: int, rng: np.random.Generator) -> Any:
    """Parameters of n CartPoles, drawn as ``cart_pole.family`` draws them."""
    low, high = np.log([(1.6, 25.0), (0.05, 2.0), (5.0, 10.0)]).T
    drawn = np.exp(low + (high - low) * rng.random((n, 3))).astype(np.float32)
    drawn[:, 2] *= rng.choice([-1, 1], n)
    usual = jcp.Params()
    masses = (np.full(n, mass, np.float32) for mass in (usual.masscart, usual.masspole))
    return jcp.Params(*drawn.T, *masses)


def networks(n: int, rng: np.random.Generator) -> Any:
    """n random networks with two hidden layers."""
    sizes = ((4, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 2))
    weights = [(rng.normal(size=(n, m, d)) / np.sqrt(m)).astype(np.float32) for m, d in sizes]
    return jp.Networks(weights, [np.zeros((n, d), np.float32) for _, d in sizes])


def all_episodes(n_policies: int, n_tasks: int, count: int) -> Any:
    """``count`` episodes of every policy in every task; the seed of an episode depends on its task and number."""
    policy, rest = np.divmod(np.arange(n_policies * n_tasks * count, dtype=np.int64), n_tasks * count)
    return jp.Episodes(policy, rest // count, rest.astype(np.uint32))


class Bench:
    """One family and its networks, and how their episodes are run."""

    def __init__(self, n_tasks: int, n_policies: int, count: int, horizon: int) -> None:
        rng = np.random.default_rng(0)
        self.params, self.networks = variants(n_tasks, rng), networks(n_policies, rng)
        self.episodes, self.horizon = all_episodes(n_policies, n_tasks, count), horizon
        self.what = f"{n_tasks:,} variants x {n_policies:,} networks x {count} episodes x {horizon} steps"
        self.lane_bytes = jp.bytes_of_lane(POLE.reset, self.params, self.networks)

    def run(self, play: Any, most_lanes: int | None = None) -> Any:
        return jp.played(
            play, self.networks, self.params, self.episodes, gamma=GAMMA, horizon=self.horizon,
            lane_bytes=self.lane_bytes, most_lanes=most_lanes,
        )  # fmt: skip

    def rows(self) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        for name, each in (("to the end", endless), ("until the pole falls", step)):
            play, seconds = program(each), []
            for _ in range(3):
                begun = time.perf_counter()
                played = self.run(play)
                seconds.append(time.perf_counter() - begun)
            steps = int(played.steps.sum(dtype=np.int64))
            later = min(seconds[1:])
            cells = (f"{seconds[0]:.2f} s", f"{later:.2f} s", f"{steps:,}", f"{steps / later / 1e6:,.1f} million")
            found.append((f"{self.what}, {name}", *cells))
        return found


def same_bits(bench: Bench) -> str:
    """Whether the size of a batch changes returns, in words."""
    play = program(step)
    whole, parts = bench.run(play), bench.run(play, max(256, len(bench.episodes.seed) // 5))
    different = whole.total != parts.total
    if not different.any():
        return f"All {len(different):,} returns are the same in batches of another size, bit for bit."
    steps = np.abs(whole.steps - parts.steps)
    return (
        f"{int(different.sum()):,} of {len(different):,} returns differ in batches of another size: by "
        f"{steps.max()} steps at most, by {np.abs(whole.total - parts.total).mean():.2g} on average over all."
    )


def same_on_cpu(bench: Bench) -> str:
    """Whether the device changes returns, in words."""
    here = bench.run(program(step))
    with jax.default_device(jax.devices("cpu")[0]):
        there = bench.run(jp.program(POLE.reset, step, LAYERS))
    same = np.mean(here.steps == there.steps)
    return (
        f"{100 * same:.2f}% of {len(here.steps):,} episodes have the same number of steps on the CPU; mean return "
        f"{here.total.mean():.5f} here, {there.total.mean():.5f} there."
    )


def main(arguments: list[str] | None = None) -> None:
    on_cpu = jax.default_backend() == "cpu"
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual, small in (
        ("tasks", 1000, 100),
        ("policies", 1000, 100),
        ("episodes", 8, 8),
        ("horizon", 500, 500),
    ):
        parser.add_argument(f"--{name}", type=int, default=small if on_cpu else usual)
    given = parser.parse_args(arguments)
    device = jax.devices()[0]
    versions = f"CPython {platform.python_version()}, jax {jax.__version__}, numpy {np.__version__}"
    print(f"Measured on {device.device_kind} ({device.platform}), {datetime.now(UTC):%Y-%m-%d}, {versions}.")
    print(f"Free memory: {jp.free_bytes() / 2**30:.1f} GiB.\n")
    print("| what | first run, compiling | later run | steps | steps per second |\n|---|---|---|---|---|")
    sizes = {(min(40, given.tasks), min(40, given.policies)): None, (given.tasks, given.policies): None}
    benches = [Bench(*size, given.episodes, given.horizon) for size in sizes]
    for bench in benches:
        for cells in bench.rows():
            print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\n{same_bits(benches[0])}", flush=True)
    if not on_cpu:
        print(same_on_cpu(benches[0]))
    stats = device.memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        print(f"Peak memory of the device: {stats['peak_bytes_in_use'] / 2**30:.1f} GiB.")


if __name__ == "__main__":
    main()
