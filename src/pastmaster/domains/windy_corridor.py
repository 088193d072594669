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

from pastmaster.errors import InvalidInputError
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.tasks.tabular_env import TabularEnv, paint

N_CORRIDORS = 10
WINDY_COLUMNS = (1, 2)
FIRST_CORRIDOR_COLUMN = 3
START_ROW = 5
NORTH = 0
WINDS = tuple(step / 10 for step in range(10))


def family(
    *, corridor: int = 3, gamma: float = 0.9, horizon: int | None = 200, terminating: bool = False
) -> list[TabularMDP]:
    """The 100 tasks; task 10 * goal + w has its goal in corridor ``goal`` and wind w / 10."""
    return [
        task(goal, wind, corridor=corridor, gamma=gamma, horizon=horizon, terminating=terminating)
        for goal in range(N_CORRIDORS)
        for wind in WINDS
    ]


def task(
    goal: int,
    wind: float,
    *,
    corridor: int = 3,
    gamma: float = 0.9,
    horizon: int | None = 200,
    terminating: bool = False,
) -> TabularMDP:
    """One task: its goal at the end of corridor ``goal`` (0 in the north), corridors ``corridor`` cells long."""
    if isinstance(goal, bool) or not isinstance(goal, int | np.integer) or not 0 <= goal < N_CORRIDORS:
        raise InvalidInputError(f"windy_corridor.task: goal is {goal!r}, must be a corridor in 0..{N_CORRIDORS - 1}")
    if isinstance(wind, bool) or not isinstance(wind, int | float | np.integer | np.floating) or not 0 <= wind <= 1:
        raise InvalidInputError(f"windy_corridor.task: wind is {wind!r}, must be a probability")
    if not isinstance(corridor, int | np.integer) or corridor < 1:
        raise InvalidInputError(
            f"windy_corridor.task: corridor is {corridor!r}, must be at least 1, a whole number of cells"
        )
    wind, n_columns = float(wind), FIRST_CORRIDOR_COLUMN + corridor
    moved = _moved(n_columns)
    n_states = len(moved)
    goal_state = goal * n_columns + n_columns - 1
    next_state = np.stack([moved, np.repeat(moved[:, [NORTH]], 4, axis=1)], axis=2)
    windy = np.isin(np.arange(n_states) % n_columns, WINDY_COLUMNS)
    gust = np.where(windy, wind, 0.0)[:, None].repeat(4, axis=1)
    reward, terminated = np.zeros((n_states, 4, 2)), np.zeros((n_states, 4, 2), np.bool_)
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
    row, column = np.divmod(np.arange(N_CORRIDORS * n_columns), n_columns)
    open_to_sides = column < FIRST_CORRIDOR_COLUMN
    targets = [
        (np.where(open_to_sides, np.maximum(row - 1, 0), row), column),
        (row, np.minimum(column + 1, n_columns - 1)),
        (np.where(open_to_sides, np.minimum(row + 1, N_CORRIDORS - 1), row), column),
        (row, np.maximum(column - 1, 0)),
    ]
    return np.stack([r * n_columns + c for r, c in targets], axis=1)


class WindyCorridorEnv(TabularEnv):
    """``gymnasium.make("pastmaster/WindyCorridor-v0", goal=3, wind=0.2)``: one task of the family."""

    def __init__(self, goal: int = 0, wind: float = 0.0, render_mode: str | None = None, **settings: Any) -> None:
        mdp = task(goal, wind, **settings)
        super().__init__(mdp, render_mode, WindyCorridorPicture(mdp))


class WindyCorridorPicture:
    """The corridors from above: windy cells blue (the stronger, the darker), the goal green."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.n_columns = mdp.n_states // N_CORRIDORS
        self.goal, self.wind = mdp.params["goal"], mdp.params["wind"]

    def ansi(self, state: int) -> str:
        rows = [["."] + ["^"] * 2 + ["-"] * (self.n_columns - 3) for _ in range(N_CORRIDORS)]
        rows[self.goal][-1] = "G"
        rows[state // self.n_columns][state % self.n_columns] = "A"
        return (
            "\n".join(" ".join(row) for row in rows)
            + f"\nagent A, goal G; in the columns ^ pushed north with probability {self.wind:g}\n"
        )

    def rgb(self, state: int) -> npt.NDArray[np.uint8]:
        cells = np.full((N_CORRIDORS, self.n_columns, 3), 245)
        cells[:, list(WINDY_COLUMNS)] = (215 - 120 * self.wind, 230 - 80 * self.wind, 250)
        cells[self.goal, -1] = (60, 170, 90)
        image = paint(cells, divmod(state, self.n_columns))
        pixels = len(image) // N_CORRIDORS
        for row in range(1, N_CORRIDORS):
            image[row * pixels - 2 : row * pixels + 2, FIRST_CORRIDOR_COLUMN * pixels :] = 60
        return image
