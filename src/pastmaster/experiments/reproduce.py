"""``reproduce``: run experiments on one seed or many, judge their claims, write tables and pictures."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pastmaster import parallel
from pastmaster.checks import whole
from pastmaster.errors import InvalidInputError
from pastmaster.experiments import coloured_grid, comparisons, windy_clusters, windy_incremental
from pastmaster.experiments.charts import write_table
from pastmaster.experiments.claims import Checks, judge
from pastmaster.experiments.folder import UNITS, Reproduction, clear, write_claims, write_picture
from pastmaster.experiments.scale import FULL, HORIZONS, QUICK, WINDOWS, Scale
from pastmaster.experiments.unit import Experiment, Unit, UnitArrays

EXPERIMENTS = {
    one.name: one
    for one in (
        coloured_grid.EXPERIMENT, windy_clusters.EXPERIMENT, windy_incremental.EXPERIMENT, *comparisons.EXPERIMENTS
    )
}  # fmt: skip
"""All experiments by name, in the paper's order."""


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
    """Run the paper's experiments and judge its claims.

    If it is interrupted, the same call continues from the settings that are done. Files of an earlier reproduction in
    the same folder are removed. What is written depends on the seeds alone, not on the workers.

    Parameters
    ----------
    names : sequence of str
        Experiments by name (the keys of ``EXPERIMENTS``); none means all.
    out : path
        The folder for tables, pictures and ``claims.json``.
    seeds : iterable of int
        Each seed draws new tasks, targets and trials.
    quick : bool
        A look at each experiment in a few runs, which judges nothing.
    n_jobs : int
        The number of workers; -1 means one for each core.
    backend : str, optional
        "threads", "loky", "dask" or "ray". By default several workers are processes, which Ctrl-C ends at once.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    Reproduction
        The claims over all seeds, and where the files are.

    Raises
    ------
    InvalidInputError
        If a name or a seed is wrong, scikit-learn is missing, or ``out`` cannot be a folder.

    Examples
    --------
    >>> from pastmaster.experiments import EXPERIMENTS
    >>> list(EXPERIMENTS)[:3]
    ['coloured-grid', 'windy-clusters', 'windy-incremental']
    """
    chosen, scale, numbers = _chosen(names), QUICK if quick else FULL, _seeds(seeds)
    for experiment in chosen:
        experiment.check()
    folder = parallel.saving_folder("reproduce", out)
    by_seed = _run(chosen, numbers, scale, folder / UNITS, n_jobs=n_jobs, backend=backend, progress=progress)
    titles = {experiment.name: experiment.title for experiment in chosen}
    whole_run = Reproduction(
        folder, scale.name, numbers, machine(), version("pastmaster"), titles, [], clear(folder, EXPERIMENTS)
    )
    return _written(whole_run, chosen, by_seed)


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
    chosen: Sequence[Experiment], seeds: Sequence[int], scale: Scale, folder: Path, **how: Any
) -> dict[int, dict[str, UnitArrays]]:
    """The arrays of all units, by seed and unit; those found on disk are not run again.

    Each has a file, which any reproduction can use. ``how`` is about workers and the bar.
    """
    parallel.saving_folder("reproduce", folder)
    if how["backend"] is None and parallel.worker_count(how["n_jobs"], "reproduce") > 1:
        how["backend"] = "loky"
    units = {unit.name: unit for experiment in chosen for unit in experiment.units}
    runs = [UnitRun(unit, seed, scale) for seed in seeds for unit in sorted(units.values(), key=lambda u: -u.weight)]
    found: dict[int, dict[str, UnitArrays]] = {seed: {} for seed in seeds}
    for first in range(0, len(runs), parallel.MOST_CHUNKS):  # so that a chunk is one unit
        batch = runs[first : first + parallel.MOST_CHUNKS]
        saved = parallel.Saved[UnitRun, UnitArrays](
            folder, "", lambda results: results[0], lambda arrays, _: [dict(arrays)], [one.stem for one in batch]
        )
        made = parallel.run(UnitRun.run, batch, save=saved, label="reproduce", caller="reproduce", **how)
        for one, arrays in zip(batch, made, strict=True):
            found[one.seed][one.unit.name] = arrays
    return found


def _written(
    run: Reproduction, chosen: Sequence[Experiment], by_seed: dict[int, dict[str, UnitArrays]]
) -> Reproduction:
    """Write tables, pictures of the first seed, and the claims of each seed and of all."""
    checks: list[dict[str, Checks]] = []
    for seed, results in by_seed.items():
        folder = run.seed_folder(seed)
        for experiment in chosen:
            for name, content in experiment.tables(results):
                write_table(folder / experiment.name, name, content)
        checks.append({experiment.name: experiment.claims(results) for experiment in chosen})
        write_claims(_judged(replace(run, out=folder, seeds=(seed,)), checks[-1:]))
    for experiment in chosen:
        for name, figure in experiment.pictures(by_seed[run.seeds[0]]):
            write_picture(figure, run.seed_folder(run.seeds[0]) / experiment.name / name)
    judged = _judged(run, checks)
    write_claims(judged)
    return judged


def _judged(run: Reproduction, by_seed: Sequence[dict[str, Checks]]) -> Reproduction:
    """The run with its claims, from the checks of each seed by experiment and claim."""
    claims = [
        judge(name, experiment, [checks[experiment][name] for checks in by_seed], quick=run.mode == QUICK.name)
        for experiment, of_first in by_seed[0].items()
        for name in of_first
    ]
    return replace(run, claims=claims)


def machine(*packages: str) -> str:
    """What measurements are made on, with the versions of these packages."""
    cores, system = parallel.worker_count(-1), f"{platform.system()} {platform.machine()}"
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", *packages))
    return f"{system}, {cores} cores, CPython {platform.python_version()}, {versions}"
