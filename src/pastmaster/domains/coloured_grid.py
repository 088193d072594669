"""The coloured grid domain of the paper (after Wilson et al.): a task is two numbers, the weights of two colours.

Each cell of a size x size grid has one of two colours, fixed by a seed. Four deterministic moves (north, east, south,
west; a wall stops one). A move pays the sum of the colour weights of the cell it ends in and of that cell's
neighbours inside the grid. The agent starts in the north-west corner; entering the opposite corner ends the episode.
State = row * size + column.

Rewards are linear in the weights: tasks on one ray through the origin have the same optimal policy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import as_array
from pastmaster.checks import called_as, whole
from pastmaster.domains.grid import moved, text
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, checked_rng
from pastmaster.tables import shown
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.tasks.tabular_env import TabularEnv, paint

LARGEST_SIZE = 3000  # of a grid whose task fits into memory


@called_as("coloured_grid.family")
def family(
    weights: npt.ArrayLike,
    size: int = 10,
    seed: int = 0,
    *,
    gamma: float = 0.9,
    horizon: int | None = 200,
) -> list[TabularMDP]:
    """One task for each row of ``weights`` [N, 2], all on the same grid; the settings are those of ``task``.

    Examples
    --------
    >>> [task.name for task in family([[1.0, 0.2], [0.5, 0.5]], size=5)]
    ['coloured grid, weights 1.000 0.200', 'coloured grid, weights 0.500 0.500']
    """
    pairs = as_array(weights, "coloured_grid.family: weights", "iuf")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InvalidInputError(f"coloured_grid.family: weights has shape {pairs.shape}, must be [N, 2]")
    wrong = np.argwhere(~((pairs >= 0) & (pairs <= 1)))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise InvalidInputError(
            f"coloured_grid.family: weights[{row}, {column}] is {pairs[row, column]}, must be in [0, 1]"
        )
    return [task(pair, size, seed, gamma=gamma, horizon=horizon) for pair in pairs]


@called_as("coloured_grid.new_tasks")
def new_tasks(n_tasks: int, *, rng: Rng = None, **settings: Any) -> list[TabularMDP]:
    """``n_tasks`` tasks with both weights drawn from [0, 1]; the settings are those of ``task``.

    Examples
    --------
    >>> new_tasks(3, size=5, rng=np.random.default_rng(0))[2].name
    'coloured grid, weights 0.813 0.913'
    """
    caller = "coloured_grid.new_tasks"
    n_tasks = whole(caller, "n_tasks", n_tasks, at_least=1)
    return family(checked_rng(caller, rng).random((n_tasks, 2)), **settings)


@called_as("coloured_grid.task")
def task(
    weights: npt.ArrayLike,
    size: int = 10,
    seed: int = 0,
    *,
    gamma: float = 0.9,
    horizon: int | None = 200,
) -> TabularMDP:
    """One task of the domain.

    Parameters
    ----------
    weights : array_like, [2]
        The weights of the two colours, each in [0, 1].
    size, seed : int
        The side of the grid in cells, and the seed of its colours.
    gamma, horizon
        The discount, and the step cap of an episode (None: no cap).

    Examples
    --------
    >>> task((0.2, 0.9), size=5).n_states
    25
    """
    given = as_array(weights, "coloured_grid.task: weights", "iuf")
    if given.shape != (2,) or not ((given >= 0) & (given <= 1)).all():
        raise InvalidInputError(
            f"coloured_grid.task: weights is {shown(given.tolist())}, must be two numbers in [0, 1]"
        )
    pair = given.astype(np.float64)
    paid = np.pad(pair[colours(size, seed)], 1)
    next_state = moved(size, size)
    around = paid[1:-1, 1:-1] + paid[:-2, 1:-1] + paid[2:, 1:-1] + paid[1:-1, :-2] + paid[1:-1, 2:]
    reward = around.ravel()[next_state]
    goal = size * size - 1
    terminated = next_state == goal
    next_state[goal] = goal
    reward[goal] = 0.0
    terminated[goal] = True
    name = f"coloured grid, weights {pair[0]:.3f} {pair[1]:.3f}"
    params = {"weights": pair.tolist(), "size": size, "seed": seed}
    return TabularMDP(
        next_state,
        reward,
        gamma=gamma,
        terminated=terminated,
        horizon=horizon,
        name=name,
        params=params,
    )


@called_as("coloured_grid.colours")
def colours(size: int = 10, seed: int = 0) -> npt.NDArray[np.int64]:
    """The colour, 0 or 1, of each cell [size, size]."""
    size = whole("coloured_grid.colours", "size", size, at_least=2, at_most=LARGEST_SIZE)
    seed = whole("coloured_grid.colours", "seed", seed, at_least=0, at_most=2**128)
    return np.random.default_rng(seed).integers(2, size=(size, size))


class ColouredGridEnv(TabularEnv):
    """``gymnasium.make("pastmaster/ColouredGrid-v0", weights=(0.2, 0.9))``: one task of the family."""

    def __init__(
        self,
        weights: tuple[float, float] = (0.5, 0.5),
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        mdp = task(weights, **settings)
        super().__init__(mdp, render_mode, ColouredGridPicture(mdp))


class ColouredGridPicture:
    """The two colours, orange and violet, the paler the lower their weight; the corner that ends it is green."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.paint = colours(mdp.params["size"], mdp.params["seed"])
        self.weights = np.array(mdp.params["weights"])

    def ansi(self, state: int) -> str:
        cells = np.array(["o", "+"])[self.paint]
        cells[-1, -1] = "E"
        cells[divmod(state, len(cells))] = "A"
        return text(cells, f"agent A, end E; weights: o {self.weights[0]:g}, + {self.weights[1]:g}")

    def rgb(self, state: int) -> npt.NDArray[np.uint8]:
        hues = np.array([(225, 120, 20), (120, 70, 190)])
        strength = 0.2 + 0.8 * self.weights[:, None]
        cells = (255 - (255 - hues) * strength)[self.paint]
        cells[-1, -1] = (60, 170, 90)
        return paint(cells, divmod(state, len(cells)))
