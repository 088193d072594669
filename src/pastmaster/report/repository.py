"""A repository as a page: its tasks, which policies are kept and for whom, and the runs it remembers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pastmaster.clustering import Clustering
from pastmaster.clustering.partition import KEPT
from pastmaster.clustering.picture import task_points
from pastmaster.errors import DamagedError, RepositoryError
from pastmaster.report.charts import Curves, Distances, Indices, Line, Shares, TaskMap, Tasks
from pastmaster.report.overview import Losses, losses_panel, returns_fact, stream_panel
from pastmaster.report.page import Bars, Gallery, Page, Part, Prose, Section, Table, Trend
from pastmaster.repository import Repository
from pastmaster.repository.records import PolicyRecord, TaskRecord
from pastmaster.repository.streams import StoredRun
from pastmaster.reuse.windows import Windows, windows
from pastmaster.tables import counted

MOST_RUNS = 50
WINDOWS = 100  # of a run, at most
MOST_ARMS = 7  # sources shown by themselves
MAP = "Map of the tasks"
AXES = ("first scaled coordinate", "second scaled coordinate")
ABOUT = "The tasks solved so far, the few policies kept for all of them, and the runs on the latest tasks."
NO_TASKS = "No tasks yet: pastmaster repo add puts them in."
NO_CLUSTERING = "No clustering yet: pastmaster repo keep {place} -k 3 finds the policies worth keeping."
NO_RUNS = "No runs yet: pastmaster continual runs a stream of tasks and stores every return."
CELLS_NOTE = "Each kept policy serves a group of tasks. What is lost is measured against the best stored policy."
PAPERS_NOTE = (
    "Distances are the paper's: what two tasks lose if they swap policies. A group is served by the policy of one of "
    "its tasks."
)
MOST_NAMES = 8  # of tasks or policies in a sentence or a cell of a table
MAP_NOTE = (
    "Tasks near each other have policies that are worth nearly the same to both (classical scaling of the distances). "
    "A thin line joins each to the representative of its cell, a star with the cell's number. Tasks at the same place "
    "are spread a little."
)
POLICY_MAP_NOTE = (
    "Tasks near each other lose nearly the same under every policy (classical scaling of the losses). A star is a kept "
    "policy, in the middle of the tasks that it serves; thin lines join it to them. Tasks at the same place are spread "
    "a little."
)
DISTANCE_NOTE = "Dark is little, light is much. Tasks are ordered by cell, and lines separate the cells."
LOSSES_NOTE = (
    "Dark is little, light is much. Rows are tasks, ordered by cell, and lines separate the cells. Columns are all "
    "stored policies; those kept are marked above and named below."
)
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
    facts: list[tuple[str, str]] = []
    overview: list[Bars | Trend] = []
    lead = ABOUT
    if not records:
        section = Section("Tasks", (Prose(NO_TASKS, aside=True),))
    else:
        section, answer = _kept(repository, records, facts, overview)
        lead = answer or ABOUT
    if (panel := stream_panel(runs)) is not None:
        overview.append(panel)
        facts.append(returns_fact(panel))
    if not any(name == "Policies kept" for name, _ in facts):
        facts.append(("Tasks", f"{len(records):,}"))
    facts.append(("Repository", repository.place))
    return Page("Repository report", lead, tuple(facts), (section, _met(runs)), overview=overview)


def _kept(
    repository: Repository, records: list[TaskRecord], facts: list[tuple[str, str]], overview: list[Bars | Trend]
) -> tuple[Section, str]:
    """The latest clustering, and its answer in a sentence; the first screen gets its figures."""
    heading = "Policies kept"
    try:
        cells, clustering = repository.cells(), repository.clustering()
    except DamagedError:
        raise
    except RepositoryError as error:  # its tasks are gone
        return Section(heading, (Prose(f"The latest clustering cannot be shown: {error}.", aside=True),)), ""
    if clustering is None:
        return Section(heading, (Prose(NO_CLUSTERING.format(place=repository.place), aside=True),)), ""
    if list(cells.values()) != clustering.labels.tolist():
        raise RepositoryError(f"{repository.place} was clustered anew while it was read: try again")
    numbers = np.array(list(cells), np.int64)
    policies = repository.policy_records(repository.cell_policies())
    since = len(records) - len(numbers)
    n_kept = len({policy.id for policy in policies})
    losses = Losses.of(repository, clustering, numbers.tolist(), [policy.name for policy in policies])
    facts += [("Policies kept", f"{n_kept} for {counted(len(numbers), 'task')}"), *losses.facts()]
    overview.append(losses_panel(losses, since))
    late = f"{counted(since, 'task')} came after the latest clustering and {'is' if since == 1 else 'are'} not shown."
    parts: list[Part] = [Prose(late, aside=True)] if since > 0 else []
    parts += [Prose(CELLS_NOTE if clustering.directed else PAPERS_NOTE), _cells_table(clustering, policies)]
    parts.append(Prose(f"{clustering}{'' if clustering.gap is not None else ' (not certified)'}."))
    if clustering.standard_errors is not None and clustering.kind in KEPT:  # values are estimates
        parts.append(Prose(f"How sure that is: {clustering.stability(rng=0)}."))
    names = _some(list(dict.fromkeys(policy.name for policy in policies)))
    most, mean = losses.lost.max(), losses.lost.mean()
    loss = f"A task loses at most {most:.4g}, {mean:.4g} on average." if most > 0 else "No task loses anything."
    if since > 0:
        lost = f"loses at most {most:.4g}, {mean:.4g} on average" if most > 0 else "loses nothing"
        then = f"Each of the {counted(len(numbers), 'task')} stored when these were chosen {lost}"
        loss = f"{then}; {counted(since, 'task')} came later and may lose more."
    answer = f"Keep {n_kept} of {counted(clustering.distance.shape[1], 'policy')}: {names}. {loss}"
    return Section(heading, (*parts, *_charts(clustering, numbers), losses.table())), answer


def _cells_table(clustering: Clustering, policies: Sequence[PolicyRecord]) -> Table:
    """Each kept policy by name and file, and the tasks it serves."""
    files = any(policy.source for policy in policies)
    rows = []
    for cell, (policy, radius) in enumerate(zip(policies, clustering.radii, strict=True)):
        members = clustering.members(cell).tolist()
        source = [policy.source or "-"] if files else []
        served = _some([str(clustering.task(i)) for i in members])
        rows.append((str(cell), policy.name, *source, f"{len(members):,}", f"{radius:.4g}", served))
    head = ("group", "policy", *(["file"] if files else []), "tasks", "most lost", "which tasks")
    return Table("The policies kept, and whom they serve", head, rows, numeric=(0, 2 + files, 3 + files))


def _charts(clustering: Clustering, numbers: Indices) -> list[Part]:
    """The map and the distances; where losses count, with the kept policies in place of tasks that represent cells."""
    names, cells, points = clustering.task_names, clustering.labels, task_points(clustering)
    kept = clustering.representatives
    if not clustering.directed:
        tasks = Tasks(numbers, names, cells, kept[cells])
        task_map = TaskMap("All tasks by distance", tasks, points, AXES)
        distances = Distances("Policy distance", tasks, clustering.distance)
        return [Gallery(MAP, MAP_NOTE, (task_map,)), Gallery("Distances", DISTANCE_NOTE, (distances,))]
    tasks = Tasks(numbers, names, cells, None)
    policies = [str(clustering.policy(j)) for j in range(clustering.distance.shape[1])]
    task_map = TaskMap("All tasks by what they lose", tasks, points, AXES, [policies[j] for j in kept.tolist()])
    what = "What each task (row) loses under each policy (column)"
    distances = Distances(what, tasks, clustering.distance, policies, np.unique(kept).tolist())
    return [Gallery(MAP, POLICY_MAP_NOTE, (task_map,)), Gallery("Losses", LOSSES_NOTE, (distances,))]


def _some(names: Sequence[str]) -> str:
    """Names in a row, the first few of them."""
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


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
    middle, deviation = cut.middles, np.array([piece.std() for piece in cut.pieces(returns)])
    lines = [Line("mean return", middle, cut.means(returns), deviation)]
    if math.isfinite(run.value):
        level = np.full(len(middle), run.value)
        lines.append(Line("the task's policy", middle, level, np.zeros(len(middle)), reference=True))
    return Curves(_called(run), lines)


def run_shares(run: StoredRun) -> Shares:
    """The arms of a run in windows: the learner, the sources most used, and the others together."""
    cut, arms, n_arms = _windows(run), np.asarray(run.arms, np.int64), run.n_sources + 1
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
    return windows(episodes, -(-episodes // WINDOWS))


def _called(run: StoredRun) -> str:
    """What a run goes by."""
    stream = f"the stream {run.stream_name}" if run.stream_name else f"stream {run.stream_id}"
    place = "" if run.position is None else f", task {run.position + 1} of {stream}"
    return f"{run.name or 'unnamed'}{place} (run {run.id})"  # no two alike
