"""The windy corridor domain of the paper: 100 tasks = 10 goals x 10 strengths of wind.

Ten corridors lie side by side, one to a row, row 0 in the north. West of them are an entrance column without
wind, where the agent starts (in row 5), and two columns where wind blows: with probability ``wind`` the agent is
pushed north instead of making its move. Corridors are walled on both sides. State = row * n_columns + column.

Moves: north, east, south, west; a wall stops one. The goal is the east end of one corridor: it holds the agent and
pays 1 for each step there. With ``terminating`` the step into the goal pays 1 and ends the episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.checks import called_as, flag, whole, within
from pastmaster.domains.grid import NORTH, SOUTH, moved, text
from pastmaster.generators import Rng, checked_rng
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.tasks.tabular_env import TabularEnv, paint

N_CORRIDORS = 10
WINDY_COLUMNS = (1, 2)
FIRST_CORRIDOR_COLUMN = 3
START_ROW = 5
LONGEST = 10**5  # corridors of a task that fits into memory, in cells
WINDS = tuple(step / 10 for step in range(10))


@called_as("windy_corridor.family")
def family(**settings: Any) -> list[TabularMDP]:
    """The 100 tasks of the paper: task 10 * goal + w has its goal in corridor ``goal`` and wind w / 10.

    The settings are those of ``task``.

    Examples
    --------
    >>> family()[34].name
    'windy corridor, goal 3, wind 0.4'
    """
    return [task(goal, wind, **settings) for goal in range(N_CORRIDORS) for wind in WINDS]


@called_as("windy_corridor.new_tasks")
def new_tasks(n_tasks: int, *, rng: Rng = None, **settings: Any) -> list[TabularMDP]:
    """``n_tasks`` tasks with goals drawn at random and winds drawn from 0 to 0.9; the settings are those of ``task``.

    Examples
    --------
    >>> [task.params["goal"] for task in new_tasks(3, rng=np.random.default_rng(0))]
    [8, 6, 5]
    """
    caller = "windy_corridor.new_tasks"
    n_tasks = whole(caller, "n_tasks", n_tasks, at_least=1)
    rng = checked_rng(caller, rng)
    goals = rng.integers(N_CORRIDORS, size=n_tasks)
    winds = rng.uniform(0.0, WINDS[-1], n_tasks)
    return [task(goal, wind, **settings) for goal, wind in zip(goals, winds, strict=True)]


@called_as("windy_corridor.task")
def task(
    goal: int,
    wind: float,
    *,
    corridor: int = 3,
    gamma: float = 0.9,
    horizon: int | None = 200,
    terminating: bool = False,
) -> TabularMDP:
    """One task of the domain.

    Parameters
    ----------
    goal, wind : int, float
        The corridor with the goal at its end, 0 (north) to 9, and the probability of being pushed north in a windy
        column.
    corridor : int
        The length of the corridors, in cells.
    gamma, horizon, terminating
        The discount, the step cap of an episode (None: no cap), and whether reaching the goal ends it.

    Examples
    --------
    >>> task(goal=3, wind=0.25).n_states
    60
    """
    caller = "windy_corridor.task"
    goal = whole(caller, "goal", goal, at_least=0, at_most=N_CORRIDORS - 1)
    wind = within(caller, "wind", wind, 0.0, 1.0)
    n_columns = FIRST_CORRIDOR_COLUMN + whole(caller, "corridor", corridor, at_least=1, at_most=LONGEST)
    terminating = flag(caller, "terminating", terminating)
    ahead = _moved(n_columns)
    n_states = len(ahead)
    goal_state = goal * n_columns + n_columns - 1
    next_state = np.stack([ahead, np.repeat(ahead[:, [NORTH]], 4, axis=1)], axis=2)
    windy = np.isin(np.arange(n_states) % n_columns, WINDY_COLUMNS)
    gust = np.where(windy, wind, 0.0)[:, None].repeat(4, axis=1)
    reward = np.zeros((n_states, 4, 2))
    terminated = np.zeros((n_states, 4, 2), np.bool_)
    next_state[goal_state] = goal_state
    if terminating:
        terminated = next_state == goal_state
        reward[terminated] = 1.0
        reward[goal_state] = 0.0
    else:
        reward[goal_state] = 1.0
    return TabularMDP(
        next_state,
        reward,
        probability=np.stack([1 - gust, gust], axis=2),
        terminated=terminated,
        gamma=gamma,
        start=START_ROW * n_columns,
        horizon=horizon,
        name=f"windy corridor, goal {goal}, wind {wind:g}",
        params={"goal": goal, "wind": wind, "corridor": corridor, "terminating": terminating},
    )


def _moved(n_columns: int) -> npt.NDArray[np.int64]:
    """The state each move leads to without wind, [S, 4]."""
    ahead = moved(N_CORRIDORS, n_columns)
    states = np.arange(N_CORRIDORS * n_columns)
    walled = states % n_columns >= FIRST_CORRIDOR_COLUMN
    ahead[walled, NORTH] = ahead[walled, SOUTH] = states[walled]
    return ahead


class WindyCorridorEnv(TabularEnv):
    """``gymnasium.make("pastmaster/WindyCorridor-v0", goal=3, wind=0.2)``: one task of the family."""

    def __init__(self, goal: int = 0, wind: float = 0.0, render_mode: str | None = None, **settings: Any) -> None:
        mdp = task(goal, wind, **settings)
        super().__init__(mdp, render_mode, WindyCorridorPicture(mdp))


class WindyCorridorPicture:
    """The corridors from above: windy cells blue (the stronger, the darker), the goal green."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.n_columns = mdp.n_states // N_CORRIDORS
        self.goal = mdp.params["goal"]
        self.wind = mdp.params["wind"]

    def ansi(self, state: int) -> str:
        cells = np.array([[".", "^", "^", *"-" * (self.n_columns - 3)]] * N_CORRIDORS)
        cells[self.goal, -1] = "G"
        cells[divmod(state, self.n_columns)] = "A"
        return text(cells, f"agent A, goal G; in the columns ^ pushed north with probability {self.wind:g}")

    def rgb(self, state: int) -> npt.NDArray[np.uint8]:
        cells = np.full((N_CORRIDORS, self.n_columns, 3), 245)
        cells[:, list(WINDY_COLUMNS)] = (215 - 120 * self.wind, 230 - 80 * self.wind, 250)
        cells[self.goal, -1] = (60, 170, 90)
        image = paint(cells, divmod(state, self.n_columns))
        pixels = len(image) // N_CORRIDORS
        for row in range(1, N_CORRIDORS):
            image[row * pixels - 2 : row * pixels + 2, FIRST_CORRIDOR_COLUMN * pixels :] = 60
        return image
