"""The story of ``pastmaster demo``: a drawer of solved tasks, the few policies worth keeping, and a new task."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster import figures
from pastmaster.arrays import IntArray
from pastmaster.clustering import Clustering, search_clusterings
from pastmaster.domains import surveillance
from pastmaster.reuse import RECOMMENDED, QLearning, TransferRun, transfer
from pastmaster.reuse.drawing import draw_curves
from pastmaster.solving import Solution, solve
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import cross_values, policy_distance, return_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Stage = Callable[[str], AbstractContextManager[object]]
EPISODES, TRIALS = 10_000, 10


class Story(NamedTuple):
    """Where the picture is, what was kept, and the table: who, mean return, score in percent."""

    picture: Path
    heading: str
    table: list[tuple[str, float, float]]


def run(out: Path, stage: Stage, seed: int = 0) -> Story:
    """Cluster the policies of 60 solved surveillance tasks, meet a new one in six ways, draw it into ``out``."""
    out = figures.writable(out)
    rng = np.random.default_rng(seed)
    with stage("build 60 surveillance tasks, and a new one of the family"):
        tasks = surveillance.family(61, 2, rng=rng, n_sequences=6)
    with stage("solve them (the first run here compiles)"):
        solutions = [solve(task) for task in tasks]
        place = _new_one(surveillance.group_sequences(tasks), solutions)
        new, best = tasks.pop(place), solutions.pop(place)
        policies = [solution.policy for solution in solutions]
    with stage("cross values: every policy in every task"):
        distance = policy_distance(cross_values(tasks, policies), paired=True)
        bounds = return_bounds(tasks)
    with stage("cluster: which policies stand for all?"):
        clustering = search_clusterings(distance, episodes=EPISODES, span=bounds.span, rng=rng, restarts=4)
        kept = [policies[i] for i in clustering.representatives]
    runs: dict[str, TransferRun] = {}
    for name, sources, options in _contestants(kept, policies):
        with stage(f"new task: {name}"):
            runs[name] = transfer(
                new, sources, episodes=EPISODES, bounds=bounds, rng=np.random.default_rng([seed, len(runs)]),
                trials=TRIALS, on_violation="widen", n_jobs=-1, **options,
            )  # fmt: skip
    with stage("draw"):
        figure, (left, right) = figures.new_figure(13, 6, ncols=2, width_ratios=[1, 1.25])
        _draw_map(left, tasks, kept, clustering, new)
        draw_curves(right, runs, best.start_value)
        right.set_title(f"The new task, {EPISODES:,} episodes: mean of {TRIALS} trials, 95% intervals")
        written = figures.save(figure, out)
    optimum, lower = best.start_value, bounds.lower
    means = {name: float(run.total.mean()) / EPISODES for name, run in runs.items()}
    heading = (
        f"{len(kept)} of {len(tasks)} policies stand for all: a task loses {clustering.mean_radius:.2g} on average.\n"
        f"The new task: an optimal policy earns {optimum:.2f} an episode, the worst {lower:.2f}."
    )
    table = [(name, mean, 100 * (mean - lower) / (optimum - lower)) for name, mean in means.items()]
    return Story(written, heading, table)


def _new_one(sequences: npt.NDArray[np.int64], solutions: list[Solution]) -> int:
    """Which task to meet as new: of those with another of their group sequence the nearest; far ones earn little."""
    values = [solution.start_value for solution in solutions]
    repeated = [np.count_nonzero((sequences == sequence).all(axis=1)) > 1 for sequence in sequences]
    return int(np.argmax(np.where(repeated, values, -np.inf)))


def _contestants(kept: list[IntArray], policies: list[IntArray]) -> list[tuple[str, list[IntArray], dict[str, Any]]]:
    """Name, sources and options of each way to meet the new task."""
    n, m = len(kept), len(policies)
    paper = {"selector": "exp3-transfer", "learner": QLearning()}
    return [
        (f"pastmaster's recommended combination, {n} sources", kept, RECOMMENDED),
        (f"EXP-3-Transfer, {n} sources", kept, paper),
        (f"EXP-3-Transfer, all {m} sources", policies, paper),
        (f"Probabilistic Policy Reuse, {n} sources", kept, paper | {"selector": "ppr"}),
        ("Q-learning alone", [], paper),
        ("Q-learning alone, exploring less and less", [], paper | {"learner": RECOMMENDED["learner"]}),
    ]


def _draw_map(
    axes: Axes, tasks: list[TabularMDP], kept: list[IntArray], clustering: Clustering, new: TabularMDP
) -> None:
    """The grid, the paths of the kept policies, and what the new task asks for."""
    size, cells = surveillance.SIZE, surveillance.locations()
    rows, columns = np.divmod(cells, size)
    best = int(np.argmax(cross_values([new], kept)[0]))
    axes.plot(columns, rows, "s", color="0.75", markersize=4, label="place to watch")
    for i, (policy, task) in enumerate(zip(kept, clustering.representatives, strict=True)):
        path = _path(tasks[task], policy)
        shift = 0.35 * (i - (len(kept) - 1) / 2) / len(kept)  # so that paths side by side can be told apart
        colour = figures.shade(i, len(kept))  # not the colours of the curves, which stand for something else
        fits = i == best
        axes.plot(
            path[:, 1] + shift, path[:, 0] + shift, linewidth=5 if fits else 2, color=colour, alpha=1 if fits else 0.6,
            label="kept policy that fits it" if fits else "kept policy" if i == int(best == 0) else None,
        )  # fmt: skip
        axes.plot(path[-1, 1], path[-1, 0], "o", color=colour, markersize=6)
    for order, place in enumerate(new.params["sequence"], start=1):
        row, column = divmod(int(cells[place]), size)
        label = "wanted in the new task" if order == 1 else None
        axes.plot(column, row, "o", markersize=15, markerfacecolor="none", markeredgecolor="black", label=label)
        axes.annotate(str(order), (column, row), (9, 7), textcoords="offset points", fontsize="large", weight="bold")
    start = divmod(surveillance.START, size)
    axes.plot(start[1], start[0], "*", color="black", markersize=12, label="start")
    axes.set(xlim=(-1, size), ylim=(size, -1), aspect="equal", xticks=[], yticks=[])
    axes.set_title(f"{len(tasks)} tasks solved, {len(kept)} policies kept\n(any place of a group of four will do)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=3, fontsize="small", handletextpad=0.5)


def _path(task: TabularMDP, policy: IntArray) -> Any:
    """The cells [n, 2] a policy goes through in its own task, as (row, column)."""
    state, states = int(task.start_states[0]), list[int]()
    while len(states) < (task.horizon or 0):
        states.append(state % surveillance.N_CELLS)
        if task.terminated[state, policy[state]]:
            break
        state = int(task.next_state[state, policy[state]])
    return np.stack(np.divmod(states, surveillance.SIZE), axis=1)
