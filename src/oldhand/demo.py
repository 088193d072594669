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
        figure, (left, right) = figures.new_figure(11, 4.8, ncols=2)
        figures.matrix(
            left, U, title="Cross values", rows="task", columns="policy of task", scale="value from the start"
        )
        figures.matrix(
            right, distance, title="Policy distance $d_V$", rows="task", columns="task", scale="largest loss if swapped"
        )
        for axes in (left, right):
            axes.set_xticks(range(0, 100, 10))
            axes.set_yticks(range(0, 100, 10))
        figure.suptitle(
            "100 windy corridors: task 10 g + w has its goal in corridor g and wind w / 10; "
            f"an episode pays {bounds.lower:.2f} to {bounds.upper:.2f}"
        )
        return figures.save(figure, out)
