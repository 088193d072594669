"""Which policy to keep: whether what ``transfer`` recommends is worth as much as the best source.

Five times, five policies are trained on CartPoles drawn from the family, but not for long. Each five are the sources in
five variants beyond the family, with the default selector and learner. Then the recommended policy and all sources run
the same fresh episodes. A recommendation is worse if its mean return is below that of the best source by more than two
standard errors of the difference.

    python -m benchmarks.advice --jobs 16 --csv advice.csv

runs this section alone and writes every run as a row.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.measure import machine, write_table
from pastmaster import load_sb3, transfer
from pastmaster.domains import cart_pole
from pastmaster.estimation.means import estimate_values

SETS, SOURCES, SEEDS = 5, 5, 3
TRAINING_STEPS = 3_000  # of each source: enough to be worth something, not to balance the pole
EPISODES, TRIED = 150, 50
VARIANTS = (  # gravity, half the length of the pole, force
    (5.0, 3.5, -3.0),
    (9.8, 2.0, -2.0),
    (9.8, 3.5, -3.0),
    (1.6, 1.0, -1.5),
    (20.0, 3.0, 2.0),
)
FIRST_SEED = 100


@dataclass(frozen=True)
class Setting:
    """One run: the sources, by the number of their set and their folder, the variant, and the seed."""

    folder: Path
    sources: int
    variant: int
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What a run recommended, and what policies were worth in fresh episodes."""

    sources: int
    variant: str
    seed: int
    learner_share: float  # of the episodes
    recommended: str
    snapshot_after: int | None  # own episodes of the learner; None where a source is recommended
    at_least: float  # what the learner was worth around the snapshot, by the run
    source_mean: float  # of the source that the run takes for the best
    value: float  # of the recommended policy
    error: float
    best_source: str
    best_value: float
    best_error: float
    snapshot_value: float  # of what the learner hands out, recommended or not
    last_value: float  # of its policy at the end
    seconds: float

    @property
    def difference(self) -> float:
        return self.value - self.best_value

    @property
    def is_worse(self) -> bool:
        """By more than two standard errors of the difference; the same policy has the same returns."""
        return self.difference < -2 * math.hypot(self.error, self.best_error)

    @property
    def is_learner(self) -> bool:
        return self.recommended == "learner"


def run() -> None:
    outcomes = measured(os.cpu_count() or 1)
    write(outcomes)


def measured(
    jobs: int, sets: int = SETS, variants: int = len(VARIANTS), seeds: int = SEEDS, first_seed: int = FIRST_SEED
) -> list[Outcome]:
    """Train all sources, then run all settings, in worker processes; prints a line a run."""
    outcomes = []
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(jobs, get_context("spawn")) as workers:
        folder = Path(name)
        training = [workers.submit(train, folder, number, k) for number in range(sets) for k in range(SOURCES)]
        for source in training:
            source.result()
        settings = [
            Setting(folder, number, variant, first_seed + seed)
            for seed in range(seeds)
            for variant in range(variants)
            for number in range(sets)
        ]
        for one in workers.map(outcome, settings):
            outcomes.append(one)
            print(line(one), flush=True)
    return outcomes


def train(folder: Path, number: int, k: int) -> None:
    """Source k of a set: PPO on a CartPole of the family, saved as a zip."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    task = cart_pole.family(SOURCES, rng=number)[k]
    env = make_vec_env(task.env_id, 64, seed=k, env_kwargs={**task.kwargs, "disable_env_checker": True})
    model = PPO(
        "MlpPolicy",
        env,
        policy_kwargs={"net_arch": [32, 32]},
        n_steps=32,
        batch_size=1024,
        learning_rate=lambda left: 0.01 * left,
        gae_lambda=0.95,
        device="cpu",
        seed=k,
    )
    model.learn(TRAINING_STEPS)
    model.save(path_of(folder, number, k))


def path_of(folder: Path, number: int, k: int) -> Path:
    return folder / f"{number}-{k}.zip"


def outcome(setting: Setting) -> Outcome:
    """One run, and what came of its recommendation."""
    begun = time.perf_counter()
    task = cart_pole.task(*VARIANTS[setting.variant])
    names = [f"source {k + 1}" for k in range(SOURCES)]
    sources = [load_sb3(path_of(setting.folder, setting.sources, k)) for k in range(SOURCES)]
    rng = np.random.default_rng([setting.seed, setting.sources, setting.variant])
    done = transfer(task, dict(zip(names, sources, strict=True)), episodes=EPISODES, rng=rng)
    (advice,) = done.advice

    policies = [*sources, done.recommended_policy, done.policy, done.learners[0].policy]
    tried = estimate_values(task, policies, episodes=TRIED, seed=int(rng.integers(2**31)))
    best = int(tried.mean[:SOURCES].argmax())
    recommended, snapshot, last = range(SOURCES, SOURCES + 3)
    return Outcome(
        sources=setting.sources,
        variant=task.name,
        seed=setting.seed,
        learner_share=float((done.arms == SOURCES).mean()),
        recommended=done.arm_names[advice.arm],
        snapshot_after=advice.after if advice.arm == SOURCES else None,
        at_least=advice.at_least,
        source_mean=advice.source_mean,
        value=float(tried.mean[recommended]),
        error=float(tried.error[recommended]),
        best_source=names[best],
        best_value=float(tried.mean[best]),
        best_error=float(tried.error[best]),
        snapshot_value=float(tried.mean[snapshot]),
        last_value=float(tried.mean[last]),
        seconds=time.perf_counter() - begun,
    )


def line(one: Outcome) -> str:
    """A run in a line."""
    verdict = "WORSE" if one.is_worse else "ok"
    return (
        f"set {one.sources}, {one.variant}, seed {one.seed}: {one.recommended} {one.value:.1f} ± {one.error:.1f}, "
        f"best is {one.best_source} {one.best_value:.1f} ± {one.best_error:.1f}, {verdict}; "
        f"learner: snapshot {one.snapshot_value:.1f}, last {one.last_value:.1f}; {one.seconds:.0f} s"
    )


def write(outcomes: list[Outcome]) -> None:
    """The table: a line for each variant, and one for all."""
    variants = list(dict.fromkeys(one.variant for one in outcomes))
    lines = [row(name, [one for one in outcomes if one.variant == name]) for name in variants]
    lines.append(row("all", outcomes))
    header = (
        "variant | runs | best source worth, mean | recommended policy worth, mean | learner recommended | "
        "worse than the best source | the learner's last policy worse"
    )
    write_table("advice", machine("stable-baselines3", "torch"), header, lines)


def row(name: str, some: list[Outcome]) -> str:
    best = np.mean([one.best_value for one in some])
    value = np.mean([one.value for one in some])
    learners = sum(one.is_learner for one in some)
    worse = sum(one.is_worse for one in some)
    collapsed = sum(one.last_value < one.best_value - 2 * one.best_error for one in some if one.is_learner)
    return f"| {name} | {len(some)} | {best:.1f} | {value:.1f} | {learners} | {worse} | {collapsed} of {learners} |"


def save(path: Path, outcomes: list[Outcome]) -> None:
    """Every run as a row."""
    rows = [asdict(one) | {"difference": one.difference, "worse": one.is_worse} for one in outcomes]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    options.add_argument("--sets", type=int, default=SETS, help="sets of five sources")
    options.add_argument("--variants", type=int, default=len(VARIANTS), help="how many of the variants")
    options.add_argument("--seeds", type=int, default=SEEDS)
    options.add_argument("--first-seed", type=int, default=FIRST_SEED)
    options.add_argument("--csv", type=Path, help="every run as a row of this file")
    chosen = options.parse_args()
    outcomes = measured(chosen.jobs, chosen.sets, chosen.variants, chosen.seeds, chosen.first_seed)
    if chosen.csv:
        save(chosen.csv, outcomes)
    write(outcomes)


if __name__ == "__main__":
    main()
