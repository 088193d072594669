"""The story that ``oldhand demo`` tells."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from oldhand import figures
from oldhand.domains import windy_corridor
from oldhand.solve import solve
from oldhand.values import cross_values, policy_distance, return_bounds

Stage = Callable[[str], AbstractContextManager[None]]


def run(out: Path, stage: Stage) -> Path:
    """Build, solve and cross-evaluate the windy corridor, and draw the cross values and distances into ``out``."""
    out = figures.writable(out)
    with stage("build 100 windy-corridor tasks (10 goals x 10 winds)"):
        tasks = windy_corridor.family()
    with stage("solve them (the first run on a machine compiles)"):
        policies = [solve(task).policy for task in tasks]
    with stage("cross values: every policy in every task"):
        U = cross_values(tasks, policies)
    with stage("distances, and what an episode can pay"):
        distance = policy_distance(U)
        bounds = return_bounds(tasks)
    with stage("draw"):
        figure, (left, right) = figures.new_figure(11, 5.2, ncols=2)
        values = "Cross values: a policy pays only for its own goal"
        figures.matrix(left, U, title=values, rows="task", columns="policy of task", scale="value from the start")
        losses = "Policy distance $d_V$: near tasks can share a policy"
        larger = "the larger loss if the two swap policies"
        figures.matrix(right, distance, title=losses, rows="task", columns="task", scale=larger, colours="magma_r")
        for axes in (left, right):
            goals = [f"goal {goal}" for goal in range(10)]
            axes.set_xticks(range(5, 105, 10), goals, rotation=60)
            axes.set_yticks(range(5, 105, 10), goals)
        figure.suptitle(
            "100 windy corridors: ten goals, and within each ten winds from still to strong. "
            f"An episode pays {bounds.lower:.2f} to {bounds.upper:.2f}."
        )
        return figures.save(figure, out)
