"""``reproduce``: run experiments under readings, on one draw of tasks or many, judge the paper's sentences."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import astuple, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pastmaster import InvalidInputError, parallel
from pastmaster_paper.experiments import (
    coloured_grid,
    comparisons,
    findings,
    loose_ends,
    turns,
    useless_sources,
    windy_clusters,
    windy_incremental,
)
from pastmaster_paper.experiments.charts import write_table
from pastmaster_paper.experiments.folder import (
    FIGURES,
    UNITS,
    Reproduction,
    Told,
    clear,
    write_judged,
    write_picture,
)
from pastmaster_paper.experiments.readings import FIRST_SEED, READINGS, Reading, checked_readings, checked_seed
from pastmaster_paper.experiments.scale import FULL, HORIZONS, QUICK, WINDOWS, Scale
from pastmaster_paper.experiments.sentences import SENTENCES, Judged, judge
from pastmaster_paper.experiments.unit import Draws, Experiment, Results, Unit, UnitArrays

EXPERIMENTS = {
    one.name: one
    for one in (
        coloured_grid.EXPERIMENT, windy_clusters.EXPERIMENT, windy_incremental.EXPERIMENT, *comparisons.EXPERIMENTS,
        *findings.EXPERIMENTS, useless_sources.EXPERIMENT, *turns.EXPERIMENTS, loose_ends.EXPERIMENT,
    )
}  # fmt: skip
"""All experiments by name: the paper's in its order, then ours."""


def reproduce(
    names: Sequence[str] = (),
    *,
    out: str | Path,
    seeds: Iterable[int] = (FIRST_SEED,),
    readings: Iterable[Reading | str | Path] = tuple(READINGS),
    quick: bool = False,
    n_jobs: int = 1,
    executor: Executor | None = None,
    progress: bool = False,
) -> Reproduction:
    """Run the paper's experiments and judge what it says, sentence by sentence.

    If it is interrupted, the same call continues. Files of an earlier reproduction in the same folder are removed. What
    is written depends on the seeds and readings alone, not on the workers.

    Parameters
    ----------
    names : sequence of str
        Experiments by name (the keys of ``EXPERIMENTS``); none means all but "why" and the loose ends.
    out : path
        The folder for tables, pictures and ``sentences.json``.
    seeds : iterable of int
        Each seed draws new tasks, targets and trials. Sentences are judged on 20, from 5000 on.
    readings : iterable of Reading, str or path
        "printed", "undiscounted", a ``Reading``, or a TOML file with one.
    quick : bool
        A look at each experiment in a few runs, which judges nothing.
    n_jobs, executor, progress
        The number of workers (-1: one for each core; several are processes, which Ctrl-C ends at once), or a
        ``concurrent.futures.Executor`` whose workers are used instead; and whether to show a bar.

    Returns
    -------
    Reproduction
        The sentences over all draws, and where the files are.

    Raises
    ------
    InvalidInputError
        If a name, a seed or a reading is wrong, scikit-learn is missing, or ``out`` cannot be a folder.

    Examples
    --------
    >>> from pastmaster_paper.experiments import EXPERIMENTS
    >>> list(EXPERIMENTS)[:3]
    ['coloured-grid', 'windy-clusters', 'windy-incremental']
    """
    chosen, scale, numbers = _chosen(names), QUICK if quick else FULL, _seeds(seeds)
    given = checked_readings(readings)
    for experiment in chosen:
        experiment.check()
    folder = parallel.saving_folder("reproduce", out)
    draws = _run(chosen, given, numbers, scale, folder / UNITS, n_jobs=n_jobs, executor=executor, progress=progress)
    judged = _judged([one.name for one in chosen], given, draws, quick)
    replaced = clear(folder, EXPERIMENTS)
    for experiment in chosen:
        _write(experiment, given, draws, folder / FIGURES / experiment.name)
    found = {one.id for one in judged}
    result = Reproduction(
        folder, scale.name, numbers, machine(), version("pastmaster"), {one.name: one.table() for one in given},
        {one.name: one.title for one in chosen}, tuple(one.name for one in chosen if one.ours),
        [Told(s.id, s.lines, s.words, s.experiment) for s in SENTENCES if s.id in found], judged, replaced,
    )  # fmt: skip
    write_judged(result)
    return result


def _chosen(names: Sequence[str]) -> list[Experiment]:
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise InvalidInputError(f"reproduce: {unknown[0]!r} is no experiment, must be one of {', '.join(EXPERIMENTS)}")
    return [one for name, one in EXPERIMENTS.items() if (name in names if names else not one.wants_name)]


def _seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    numbers = tuple(checked_seed("reproduce", seed) for seed in seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise InvalidInputError(f"reproduce: seeds is {list(numbers)}, must be one or more different numbers")
    return numbers


@dataclass(frozen=True)
class UnitRun:
    """A unit for a seed."""

    unit: Unit
    seed: int
    scale: Scale

    def run(self) -> UnitArrays:
        return self.unit.run(self.unit.rng(self.seed), self.scale)

    @property
    def stem(self) -> str:
        """The name of its file."""
        run = parallel.digest(*astuple(self.scale), HORIZONS, WINDOWS, self.unit.settings)
        return f"seed-{self.seed}-{self.unit.name}-{run[:12]}"


def _run(
    chosen: Sequence[Experiment], readings: Sequence[Reading], seeds: Sequence[int], scale: Scale, folder: Path,
    **how: Any,
) -> list[Results]:  # fmt: skip
    """The arrays of all units, by seed and unit; those found on disk are not run again.

    Each has a file, which any reproduction can use. ``how`` is about workers and the bar.
    """
    parallel.saving_folder("reproduce", folder)
    how["processes"] = True
    wanted = [*(unit for one in chosen for unit in one.common),
              *(unit for one in chosen for reading in readings for unit in one.units(reading))]  # fmt: skip
    units = sorted({unit.name: unit for unit in wanted}.values(), key=lambda unit: -unit.weight)
    runs = [UnitRun(unit, seed, scale) for seed in seeds for unit in units]
    found: dict[int, dict[str, UnitArrays]] = {seed: {} for seed in seeds}
    for first in range(0, len(runs), parallel.MOST_CHUNKS):  # so that a chunk is one unit
        batch = runs[first : first + parallel.MOST_CHUNKS]
        saved = parallel.Saved[UnitRun, UnitArrays](
            folder, "", lambda results: results[0], lambda arrays, _: [dict(arrays)], [one.stem for one in batch]
        )
        made = parallel.run(UnitRun.run, batch, save=saved, label="reproduce", caller="reproduce", **how)
        for one, arrays in zip(batch, made, strict=True):
            found[one.seed][one.unit.name] = arrays
    return list(found.values())


def _judged(names: Sequence[str], readings: Sequence[Reading], draws: Sequence[Results], quick: bool) -> list[Judged]:
    """The sentences of these experiments, each under each reading that changes it."""
    return [
        judge(sentence, draws, reading, quick=quick)
        for sentence in SENTENCES
        if sentence.experiment in names
        for reading in (readings if sentence.of_reading else (None,))
    ]


def _write(experiment: Experiment, readings: Sequence[Reading], draws: Sequence[Results], folder: Path) -> None:
    """Tables and pictures of an experiment, for each reading where it has units of its own."""
    for reading in [None] if experiment.common else readings:
        found, prefix = Draws(draws, reading), "" if reading is None else f"{reading.name}-"
        for name, content in experiment.tables(found):
            write_table(folder, prefix + name, content, "" if reading is None else f" ({reading.name})")
        for name, figure in experiment.pictures(found):
            write_picture(figure, folder / f"{prefix}{name}")


def machine() -> str:
    """What measurements are made on."""
    cores, system = parallel.worker_count(-1), f"{platform.system()} {platform.machine()}"
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    return f"{system}, {cores} cores, CPython {platform.python_version()}, {versions}"
