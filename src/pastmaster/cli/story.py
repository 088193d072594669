"""The story of ``pastmaster demo``: a drawer of solved tasks, the few policies worth keeping, and new tasks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pastmaster import figures
from pastmaster.arrays import FloatArray, IntArray, LongArray
from pastmaster.clustering import Clustering, search_clusterings
from pastmaster.domains import surveillance
from pastmaster.reuse import Experience, QLearning, transfer
from pastmaster.solving import solve
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import cross_values, policy_distance, return_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Stage = Callable[[str], AbstractContextManager[object]]
OLD, NEW = 60, 20  # tasks
EPISODES, TRIALS = 100, 10  # of each new task
KEPT_FOR = 10_000  # episodes: by the bound of the paper's bandit hardly any policy is worth keeping for a hundred
TOLD = (10, 30, EPISODES)  # episodes after which the table tells the score


class Story(NamedTuple):
    """Where the picture is, what was kept, and the table: who, and the scores in percent after ``TOLD`` episodes."""

    picture: Path
    heading: str
    table: list[tuple[str, list[float]]]


def run(out: Path, stage: Stage, seed: int = 0) -> Story:
    """Cluster the policies of 60 solved surveillance tasks, meet twenty new ones in six ways, draw it into ``out``."""
    out = figures.writable(out)
    rng = np.random.default_rng(seed)
    with stage(f"build {OLD} surveillance tasks, and {NEW} new ones of the family"):
        family = surveillance.family(OLD + NEW, 2, rng=rng, n_sequences=6)
        order = rng.permutation(OLD + NEW)
        tasks, new = ([family[i] for i in part] for part in (order[:OLD], order[OLD:]))
    with stage("solve them (the first run here compiles)"):
        policies = [solve(task).policy for task in tasks]
        optimal = np.array([solve(task).start_value for task in new])  # to compare with: nobody is told
    with stage("cross values: every policy in every task"):
        U, bounds = cross_values(tasks, policies), return_bounds(tasks)
    with stage("cluster: which policies stand for all?"):
        distance = policy_distance(U, paired=True)
        clustering = search_clusterings(distance, episodes=KEPT_FOR, span=bounds.span, rng=rng, restarts=4)
        kept = [policies[i] for i in clustering.representatives]
    scores: dict[str, FloatArray] = {}
    for name, sources, options in _contestants(kept, policies, U, clustering.representatives):
        with stage(f"new tasks: {name}"):
            returns = [
                transfer(
                    task, sources, episodes=EPISODES, bounds=bounds, rng=np.random.default_rng([seed, len(scores), i]),
                    trials=TRIALS, on_violation="widen", n_jobs=-1, **options,
                ).returns.mean(axis=0)
                for i, task in enumerate(new)
            ]  # fmt: skip
            scores[name] = 100 * (np.array(returns) - bounds.lower) / (optimal[:, None] - bounds.lower)
    with stage("draw"):
        figure, (left, right) = figures.new_figure(13, 6, ncols=2, width_ratios=[1, 1.25])
        _draw_map(left, tasks, kept, clustering, new[int(np.argmax(optimal))])
        _draw_scores(right, scores)
        written = figures.save(figure, out)
    heading = (
        f"{len(kept)} of {len(tasks)} policies stand for all: a task loses {clustering.mean_radius:.2g} on average.\n"
        f"{NEW} new tasks, {EPISODES} episodes each: 0 is the worst that an episode can earn, 100 an optimal policy."
    )
    table = [(name, [float(score[:, :t].mean()) for t in TOLD]) for name, score in scores.items()]
    return Story(written, heading, table)


def _contestants(
    kept: list[IntArray], policies: list[IntArray], U: FloatArray, columns: LongArray
) -> list[tuple[str, list[IntArray], dict[str, Any]]]:
    """Name, sources and options of each way to meet a new task."""
    n, m, best = len(kept), len(policies), U.max(axis=1)
    paper = {"selector": "exp3-transfer", "learner": QLearning()}
    return [
        (f"informed by the old tasks, {n} sources", kept, {"experience": Experience(U[:, columns], best=best)}),
        (f"informed by the old tasks, all {m} sources", policies, {"experience": Experience(U)}),
        (f"not informed (regret-balancing), {n} sources", kept, {}),
        (f"EXP-3-Transfer, {n} sources", kept, paper),
        (f"Probabilistic Policy Reuse, {n} sources", kept, paper | {"selector": "ppr"}),
        ("Q-learning alone", [], {}),
    ]


def _draw_scores(axes: Axes, scores: dict[str, FloatArray]) -> None:
    """The mean score so far over the new tasks [NEW, EPISODES]."""
    episode = np.arange(1, EPISODES + 1)
    for i, (name, score) in enumerate(scores.items()):
        so_far, style = score.cumsum(axis=1) / episode, figures.line_style(i)
        mean, error = so_far.mean(axis=0), so_far.std(axis=0, ddof=1) / np.sqrt(NEW)
        axes.plot(episode, mean, label=name, **(style | {"linewidth": 2}))
        axes.fill_between(episode, mean - 2 * error, mean + 2 * error, color=style["color"], alpha=0.15, linewidth=0)
    axes.axhline(100, color="black", linestyle=":", linewidth=1.2, label="optimal policy")
    axes.set(xlabel="episodes so far", ylabel="mean score so far, %", ylim=(-5, 105))
    axes.set_title(f"{NEW} new tasks, the first {EPISODES} episodes: mean and two standard errors")
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 0.78), fontsize="small")
    axes.grid(alpha=0.3)


def _draw_map(
    axes: Axes, tasks: list[TabularMDP], kept: list[IntArray], clustering: Clustering, new: TabularMDP
) -> None:
    """The grid, the paths of the kept policies, and what a new task asks for."""
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
        label = "wanted in a new task" if order == 1 else None
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
