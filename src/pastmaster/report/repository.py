"""A repository as a page: its tasks, which policies are kept and for whom, and the runs it remembers."""

from __future__ import annotations

import math

import numpy as np

from pastmaster.clustering import Clustering
from pastmaster.clustering.picture import task_points
from pastmaster.errors import DamagedError, RepositoryError
from pastmaster.experiments.charts import Curves, Distances, Indices, Line, Shares, TaskMap, Tasks
from pastmaster.report.page import Gallery, Page, Part, Prose, Section, Table
from pastmaster.report.payload import counted
from pastmaster.repository import Repository
from pastmaster.repository.records import TaskRecord
from pastmaster.repository.streams import StoredRun
from pastmaster.reuse.windows import Windows, windows

MOST_RUNS = 50
WINDOWS = 100  # of a run, at most
MOST_ARMS = 7  # sources shown by themselves
AXES = ("first scaled coordinate", "second scaled coordinate")
ABOUT = "The tasks solved so far, the few policies kept for all of them, and the runs on the latest tasks."
NO_TASKS = "No tasks yet: pastmaster repo add puts them in."
NO_CLUSTERING = "No clustering yet: pastmaster repo cluster {place} --episodes 10000 finds the policies worth keeping."
NO_RUNS = "No runs yet: pastmaster continual runs a stream of tasks and stores every return."
CELLS_NOTE = (
    "Each cell is a group of tasks that use one policy, that of its representative. Its radius is the most that any of "
    "them loses by it."
)
MAP_NOTE = (
    "Tasks near each other have policies that are worth nearly the same to both (classical scaling of the distances). "
    "A thin line joins each to the representative of its cell, a star with the cell's number. Tasks at the same place "
    "are spread a little."
)
DISTANCE_NOTE = "Dark is little, light is much. Tasks are ordered by cell, and lines separate the cells."
CURVES_NOTE = (
    "The mean return of windows of episodes; the band is one standard deviation within the window to either side. The "
    "dotted line is what the policy kept for the task was worth at the end of the run."
)
SHARES_NOTE = (
    "Which share of the episodes each policy ran: the learner's own, and those reused, in the order of the run."
)


def repository_page(repository: Repository) -> Page:
    """The page of an open repository."""
    records, runs = repository.records(), repository.runs()
    facts = [("Repository", repository.place), ("Tasks", f"{len(records):,}")]
    if not records:
        sections: tuple[Section, ...] = (Section("Tasks", (Prose(NO_TASKS, aside=True),)),)
    else:
        sections = (_kept(repository, records, facts),)
    return Page("Repository report", ABOUT, tuple(facts), (*sections, _met(runs)))


def _kept(repository: Repository, records: list[TaskRecord], facts: list[tuple[str, str]]) -> Section:
    """The latest clustering; its key figures are added to the facts at the head of the page."""
    heading = "Policies kept"
    try:
        cells, clustering = repository.cells(), repository.clustering()
    except DamagedError:
        raise
    except RepositoryError as error:  # its tasks are gone
        return Section(heading, (Prose(f"The latest clustering cannot be shown: {error}.", aside=True),))
    if clustering is None:
        return Section(heading, (Prose(NO_CLUSTERING.format(place=repository.place), aside=True),))
    if list(cells.values()) != clustering.labels.tolist():
        raise RepositoryError(f"{repository.place} was clustered anew while it was read: try again")
    numbers = np.array(list(cells), np.int64)
    known = {record.id: record.name for record in records}
    names = tuple(known.get(int(number), "") or "unnamed" for number in numbers)
    since = len(records) - len(numbers)
    facts += [
        ("Policies kept", f"{len(np.unique(clustering.representatives))} for {counted(len(numbers), 'task')}"),
        ("Cost", f"{clustering.cost:.4g}{_proof(clustering)}"),
        ("Mean radius", f"{clustering.mean_radius:.4g}"),
    ]
    late = f"{counted(since, 'task')} came after the latest clustering and {'is' if since == 1 else 'are'} not shown."
    parts: list[Part] = [Prose(late, aside=True)] if since > 0 else []
    return Section(heading, (*parts, Prose(CELLS_NOTE), *_clustering_parts(clustering, numbers, names)))


def _clustering_parts(clustering: Clustering, numbers: Indices, names: tuple[str, ...]) -> list[Part]:
    """The table of cells, the map and the distances."""
    sizes = np.bincount(clustering.labels)
    rows = [
        (str(cell), names[task], str(numbers[task]), f"{sizes[cell]:,}", f"{radius:.4g}")
        for cell, (task, radius) in enumerate(zip(clustering.representatives, clustering.radii, strict=True))
    ]
    head = ("cell", "representative", "its id", "tasks", "radius")
    tasks = Tasks.of(clustering, names, numbers)
    task_map = TaskMap("All tasks by distance", tasks, task_points(clustering), AXES)
    what = "What a task (row) loses under another's policy (column)" if clustering.directed else "Policy distance"
    distances = Distances(what, tasks, clustering.distance, directed=clustering.directed)
    return [
        Table("The cells of the latest clustering", head, rows, numeric=(0, 2, 3, 4)),
        Gallery("Map of the tasks", MAP_NOTE, (task_map,)),
        Gallery("Distances", DISTANCE_NOTE, (distances,)),
    ]


def _proof(clustering: Clustering) -> str:
    """What is proven of the cost, in words."""
    if clustering.gap is None:
        return " (not certified)"
    if clustering.is_optimal:
        return ", proven optimal"
    percent = math.ceil(1000 * clustering.gap) / 10 if math.isfinite(clustering.gap) else math.inf
    return f", at most {percent:g}% above the optimum" if math.isfinite(percent) else " (nothing proven)"


def _met(runs: list[StoredRun]) -> Section:
    """The newest runs first."""
    heading = "Runs"
    if not runs:
        return Section(heading, (Prose(NO_RUNS, aside=True),))
    newest = sorted(runs, key=lambda run: -run.id)[:MOST_RUNS]
    which = f"the newest {len(newest)} of {len(runs):,} runs" if len(runs) > len(newest) else "all runs"
    curves = tuple(run_curves(run) for run in newest)
    shares = tuple(run_shares(run) for run in newest)
    return Section(
        heading,
        (
            Prose(f"The repository keeps every return of every run. Shown are {which}, the newest first."),
            Gallery("Learning curves", CURVES_NOTE, curves),
            Gallery("Who ran the episodes", SHARES_NOTE, shares),
        ),
    )


def run_curves(run: StoredRun) -> Curves:
    """The returns of a run in windows, and what its task's policy was worth then."""
    cut, returns = _windows(run), np.asarray(run.returns, np.float64)
    if not np.isfinite(returns).all():
        raise DamagedError(f"runs {run.id}: a return is not finite")
    middle, deviation = cut.middles, np.array([piece.std() for piece in cut.pieces(returns)])
    lines = [Line("mean return", middle, cut.means(returns), deviation)]
    if math.isfinite(run.value):
        level = np.full(len(middle), run.value)
        lines.append(Line("the task's policy", middle, level, np.zeros(len(middle)), reference=True))
    return Curves(_called(run), lines)


def run_shares(run: StoredRun) -> Shares:
    """The arms of a run in windows: the learner, the sources most used, and the others together."""
    cut, arms, n_arms = _windows(run), np.asarray(run.arms, np.int64), run.n_sources + 1
    if not (arms.min() >= 0 and arms.max() < n_arms):
        raise DamagedError(f"runs {run.id}: an arm is {arms.max()}, must be in 0 .. {n_arms - 1}")
    counts = cut.counts(arms, n_arms)
    share = counts / counts.sum(axis=1, keepdims=True)
    order = np.argsort(-counts[:, :-1].sum(axis=0), kind="stable")
    shown, others = order[:MOST_ARMS], order[MOST_ARMS:]
    found = {"learner": share[:, -1]} | {run.source_names[i]: share[:, i] for i in shown}
    if len(others):
        found[f"the others ({len(others)})"] = share[:, others].sum(axis=1)
    return Shares(_called(run), cut.middles, found)


def _windows(run: StoredRun) -> Windows:
    """At most ``WINDOWS`` windows of episodes."""
    episodes = len(run.returns)
    if not episodes or len(run.arms) != episodes:
        raise DamagedError(f"runs {run.id}: there are {episodes} returns and {len(run.arms)} arms, must be as many")
    return windows(episodes, -(-episodes // WINDOWS))


def _called(run: StoredRun) -> str:
    """What a run goes by."""
    place = "" if run.position is None else f", task {run.position + 1} of stream {run.stream_id}"
    return f"Run {run.id}: {run.name or 'unnamed'}{place}"
