"""``reproduce``: run experiments on one seed or many, judge their claims, leave tables and figures.

OUT/claims.json                 each claim, on how many seeds it held, the figures of the first
OUT/seed-0/claims.json          each claim as this seed found it
OUT/seed-0/<experiment>/*.csv   the numbers; for the first seed also *.png and *.svg
OUT/units/                      what was run, so that the same command goes on from it
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pastmaster import parallel
from pastmaster.checks import whole
from pastmaster.errors import InvalidInputError
from pastmaster.experiments import output
from pastmaster.experiments.claims import Claim, summary
from pastmaster.experiments.registry import EXPERIMENTS
from pastmaster.experiments.scale import FULL, HORIZONS, QUICK, WINDOWS, Scale
from pastmaster.experiments.unit import Arrays, Experiment, Unit

SCHEMA = 1
ENOUGH_SEEDS = 10
"""From so many on we speak of claims as reproduced or not."""


@dataclass(frozen=True)
class Reproduction:
    """Where it is, and the claims over all seeds as ``claims.json`` has them."""

    out: Path
    mode: str
    seeds: tuple[int, ...]
    claims: list[dict[str, Any]]
    replaced: bool
    """Whether the tables and figures of an earlier reproduction made way."""

    @property
    def verdict(self) -> str:
        """How many claims held, in a word that fits the run."""
        if self.mode == QUICK.name:
            return f"{len(self.claims)} claims looked at in a few runs, none judged"
        good = sum(claim["reproduced"] for claim in self.claims)
        word = "reproduced" if len(self.seeds) >= ENOUGH_SEEDS else "held"
        return f"{good} of {len(self.claims)} claims {word}"

    def __repr__(self) -> str:
        seeds = f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''}"
        return f"Reproduction({self.mode}, {seeds}: {self.verdict}, in {self.out})"


def reproduce(
    names: Sequence[str] = (),
    *,
    out: str | Path,
    seeds: Iterable[int] = (0,),
    quick: bool = False,
    n_jobs: int = 1,
    backend: str | None = None,
    progress: bool = False,
) -> Reproduction:
    """Run the experiments of these names, or all, and write what they say into the folder ``out``.

    Interrupted and called again in the same words, it goes on from the settings that are done. Nothing that is written
    depends on ``n_jobs`` or ``backend``; by default several workers are processes, which Ctrl-C ends at once. Tables
    and figures of an earlier reproduction in the same folder make way.
    """
    chosen, scale, numbers = _chosen(names), QUICK if quick else FULL, _seeds(seeds)
    for experiment in chosen:
        experiment.check()
    folder = parallel.saving_folder("reproduce", out)
    units = {unit.name: unit for experiment in chosen for unit in experiment.units}
    jobs = [Job(unit, seed, scale) for seed in numbers for unit in sorted(units.values(), key=lambda u: -u.weight)]
    if backend is None and parallel.worker_count(n_jobs) > 1:
        backend = "loky"
    arrays = _run(jobs, folder / "units", n_jobs, backend, progress)
    replaced = _clear(folder)
    by_seed: dict[int, dict[str, Arrays]] = {seed: {} for seed in numbers}
    for job, found in zip(jobs, arrays, strict=True):
        by_seed[job.seed][job.unit.name] = found
    claims = [_judged(chosen, results, folder / f"seed-{seed}", scale, seed) for seed, results in by_seed.items()]
    for experiment in chosen:
        experiment.draw(by_seed[numbers[0]], folder / f"seed-{numbers[0]}" / experiment.name)
    judged = summary(claims, judge=scale == FULL)
    _write_claims(folder, chosen, scale, numbers, judged)
    return Reproduction(folder, scale.name, numbers, judged, replaced)


def _chosen(names: Sequence[str]) -> list[Experiment]:
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise InvalidInputError(f"reproduce: {unknown[0]!r} is no experiment, must be one of {', '.join(EXPERIMENTS)}")
    return [experiment for name, experiment in EXPERIMENTS.items() if not names or name in names]


def _seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    numbers = tuple(whole("reproduce", "seed", seed, at_least=0) for seed in seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise InvalidInputError(f"reproduce: seeds is {list(numbers)}, must be one or more different numbers")
    return numbers


@dataclass(frozen=True)
class Job:
    """A unit for a seed."""

    unit: Unit
    seed: int
    scale: Scale

    def run(self) -> Arrays:
        return self.unit.run(self.unit.rng(self.seed), self.scale)

    @property
    def stem(self) -> str:
        """The name of its file."""
        run = parallel.digest(*astuple(self.scale), HORIZONS, WINDOWS, self.unit.settings)
        return f"seed-{self.seed}-{self.unit.name}-{run[:12]}"


def _run(jobs: Sequence[Job], folder: Path, n_jobs: int, backend: str | None, progress: bool) -> list[Arrays]:
    """The units' arrays, those found on disk not run again: a file each, which any reproduction that needs it finds."""
    parallel.saving_folder("reproduce", folder)
    found: list[Arrays] = []
    for first in range(0, len(jobs), parallel.MOST_CHUNKS):  # so that a chunk is one unit
        batch = jobs[first : first + parallel.MOST_CHUNKS]
        saved = parallel.Saved[Job, Arrays](
            folder, "", lambda results: results[0], lambda arrays, _: [dict(arrays)], [job.stem for job in batch]
        )
        found += parallel.run(
            Job.run, batch, n_jobs=n_jobs, backend=backend, save=saved, progress=progress, label="reproduce"
        )
    return found


def _clear(folder: Path) -> bool:
    """Remove the tables, figures and claims of an earlier reproduction in this folder, if there is one."""
    try:
        told = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
        places = [folder / f"seed-{int(seed)}" for seed in told["seeds"]]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    for place in places:
        for name in EXPERIMENTS:
            for path in () if (place / name).is_symlink() else (place / name).glob("*"):
                if path.suffix in (".csv", ".png", ".svg"):
                    path.unlink()
            _leave(place / name)
        (place / "claims.json").unlink(missing_ok=True)
        _leave(place)
    (folder / "claims.json").unlink()
    return True


def _leave(folder: Path) -> None:
    """Remove a folder if nothing is in it."""
    with suppress(OSError):
        folder.rmdir()


def _judged(chosen: Sequence[Experiment], results: Any, folder: Path, scale: Scale, seed: int) -> list[Claim]:
    """Write the tables of one seed, and judge its claims."""
    claims = []
    for experiment in chosen:
        experiment.write(results, folder / experiment.name)
        claims += experiment.claims(results)
    _write_claims(folder, chosen, scale, (seed,), summary([claims], judge=scale == FULL))
    return claims


def _write_claims(
    folder: Path, chosen: Sequence[Experiment], scale: Scale, seeds: Sequence[int], claims: list[dict[str, Any]]
) -> None:
    content = {
        "schema": SCHEMA, "mode": scale.name, "seeds": list(seeds), "machine": machine(),
        "version": version("pastmaster"), "experiments": {one.name: one.title for one in chosen}, "claims": claims,
    }  # fmt: skip
    output.write_text(folder / "claims.json", json.dumps(content, indent=1) + "\n")


def machine(*packages: str) -> str:
    """What figures are measured on, with the versions of these packages."""
    cores, system = parallel.worker_count(-1), f"{platform.system()} {platform.machine()}"
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", *packages))
    return f"{system}, {cores} cores, CPython {platform.python_version()}, {versions}"
