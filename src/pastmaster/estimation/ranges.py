"""Bounds on the return of an episode in each task, and where they come from."""

from __future__ import annotations

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.returns import Returns
from pastmaster.tables import one_line
from pastmaster.tasks import Task
from pastmaster.values.bounds import checked_bounds, task_bounds

CALLER = "estimate_cross_values"
LARGEST_RETURN = 1e150  # in size
OUTSIDE = 1e-9  # relative: how far rounding may carry a return beyond its bounds


class Ranges:
    """Bounds on a return in each task, and where they come from: "declared", "task" or "running"."""

    def __init__(self, tasks: list[Task], given: tuple[float, float] | None) -> None:
        declared = None if given is None else checked_bounds(CALLER, given)
        bounds = [declared or task_bounds(task) for task in tasks]
        self.tasks = tasks
        self.sources = tuple("declared" if declared else "running" if b is None else "task" for b in bounds)
        self.known = np.array([(np.nan, np.nan) if b is None else b for b in bounds])

    def of(self, returns: Returns) -> FloatArray:
        """The bounds [N, 2] now; a return outside of bounds that are not running is refused."""
        flat, first = returns.flat
        edges = first[:: returns.counts.shape[1]]
        seen = np.stack([np.minimum.reduceat(flat, edges[:-1]), np.maximum.reduceat(flat, edges[:-1])], axis=1)
        self._refuse_outside(returns, seen)
        if (large := np.abs(seen).max()) > LARGEST_RETURN:
            i = int(np.argmax(np.abs(seen).max(axis=1)))
            raise InvalidInputError(
                f"{CALLER}: a return in tasks[{i}] ({one_line(self.tasks[i].name)}) is {large:g} in size, must be at "
                f"most {LARGEST_RETURN:g}: squares of larger ones are no numbers"
            )
        bounds = self.known.copy()
        running = np.isnan(bounds[:, 0])
        if running.any():
            reach = np.ptp(seen, axis=1)
            reach[reach == 0.0] = reach.max() or max(1.0, float(np.abs(seen).max()))
            middle = seen.mean(axis=1)
            bounds[running] = np.stack([middle - reach, middle + reach], axis=1)[running]
        return bounds

    def _refuse_outside(self, returns: Returns, seen: FloatArray) -> None:
        slack = OUTSIDE * (np.abs(self.known).max(axis=1) + np.ptp(self.known, axis=1))
        outside = (seen[:, 0] < self.known[:, 0] - slack) | (seen[:, 1] > self.known[:, 1] + slack)
        if outside.any():
            i = int(np.argmax(outside))
            middle, rows = self.known[i].mean(), [returns.of(i, j) for j in range(returns.counts.shape[1])]
            j = int(np.argmax([np.abs(row - middle).max() for row in rows]))
            worst = rows[j][np.argmax(np.abs(rows[j] - middle))]
            raise InvalidInputError(
                f"{CALLER}: policies[{j}] earned {worst:g} in an episode of tasks[{i}] "
                f"({one_line(self.tasks[i].name)}), must be in {self.known[i, 0]:g} .. {self.known[i, 1]:g}: its "
                "bounds are wrong"
            )

    def span(self, returns: Returns) -> float:
        """The span of all tasks' bounds."""
        bounds = self.of(returns)
        return float(bounds[:, 1].max() - bounds[:, 0].min())
