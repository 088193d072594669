"""A tabular task as a Gymnasium environment.

One class plays every tabular task; a domain gives it pictures by passing a ``Picture``. The environment truncates at
the task's horizon itself, so that simulation, evaluation and return bounds agree on where an episode ends.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from pastmaster.checks import LARGEST_SEED, as_index, is_word, whole
from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown
from pastmaster.tasks.tabular import TabularMDP


class Picture(Protocol):
    """How a domain shows a state: as text, and as an RGB image [height, width, 3] of bytes."""

    def ansi(self, state: int) -> str: ...

    def rgb(self, state: int) -> npt.NDArray[np.uint8]: ...


class StatePicture:
    """The picture of a task that has none of its own: its states as rows of squares, the agent on the current one."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.n_states = mdp.n_states
        self.columns = int(np.ceil(np.sqrt(mdp.n_states)))

    def ansi(self, state: int) -> str:
        return f"state {state} of {self.n_states}\n"

    def rgb(self, state: int) -> npt.NDArray[np.uint8]:
        rows = -(-self.n_states // self.columns)
        there = np.arange(rows * self.columns).reshape(rows, self.columns) < self.n_states
        return paint(np.where(there[:, :, None], 225, 255) * np.ones(3), divmod(state, self.columns))


AGENT = (30, 30, 60)


def paint(cells: npt.ArrayLike, agent: tuple[int, int], target: int = 480) -> npt.NDArray[np.uint8]:
    """A grid of colours [rows, columns, 3] as an image, longer side about ``target``, the agent a dark disc."""
    image = np.asarray(cells).astype(np.uint8)
    pixels = max(4, target // max(image.shape[:2]))
    image = np.repeat(np.repeat(image, pixels, axis=0), pixels, axis=1)
    across = (np.arange(pixels) + 0.5) / pixels - 0.5
    disc = across[:, None] ** 2 + across[None, :] ** 2 <= 0.4**2
    top = agent[0] * pixels
    left = agent[1] * pixels
    image[top : top + pixels, left : left + pixels][disc] = AGENT
    return image


class TabularEnv(gym.Env[Any, Any]):
    """A ``TabularMDP`` as a Gymnasium environment: observations are states, actions their indices.

    Parameters
    ----------
    mdp : TabularMDP
        The task. Episodes are truncated at its horizon.
    render_mode : None, "ansi" or "rgb_array"
        What ``render`` returns: text, or an image [height, width, 3].
    picture : Picture, optional
        How states are shown; by default as rows of squares.

    Examples
    --------
    >>> from pastmaster import TabularEnv, TabularMDP
    >>> env = TabularEnv(TabularMDP([[0, 1], [1, 1]], [[0.0, 1.0], [0.0, 0.0]], gamma=0.9, horizon=2), "ansi")
    >>> env.reset(seed=0)[0], env.step(1)[:4], env.render()
    (0, (1, 1.0, False, False), 'state 1 of 2\\n')
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012  as Gymnasium declares it

    def __init__(self, mdp: TabularMDP, render_mode: str | None = None, picture: Picture | None = None) -> None:
        if not isinstance(mdp, TabularMDP):
            raise InvalidInputError(f"TabularEnv: mdp is {shown(mdp)}, must be a TabularMDP")
        if render_mode is not None and not is_word(render_mode, self.metadata["render_modes"]):
            raise InvalidInputError(
                f"TabularEnv: render_mode is {shown(render_mode)}, must be None, 'ansi' or 'rgb_array'"
            )
        can_draw = all(callable(getattr(picture, name, None)) for name in ("ansi", "rgb"))
        if picture is not None and not can_draw:
            raise InvalidInputError(f"TabularEnv: picture is {shown(picture)}, must have methods ansi and rgb")
        self.mdp = mdp
        self.picture = StatePicture(mdp) if picture is None else picture
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Discrete(mdp.n_states)
        self.action_space = gym.spaces.Discrete(mdp.n_actions)
        self._state = -1
        self._steps = 0
        self._over = True

    @cached_property
    def P(self) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:  # noqa: N802  Gymnasium's name
        """Gymnasium's transition table: ``P[state][action] = [(probability, next state, reward, terminated), ...]``."""
        columns = [array.tolist() for array in self.mdp.outcomes()]
        return {
            s: {a: list(zip(*(column[s][a] for column in columns), strict=True)) for a in range(self.mdp.n_actions)}
            for s in range(self.mdp.n_states)
        }

    @property
    def horizon(self) -> int | None:
        """The number of steps after which an episode is truncated."""
        return self.mdp.horizon

    @property
    def initial_state_distrib(self) -> npt.NDArray[np.float64]:
        """The start distribution [S], under Gymnasium's name."""
        return self.mdp.start_distribution()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(
            seed=None if seed is None else whole("TabularEnv.reset", "seed", seed, at_least=0, at_most=LARGEST_SEED)
        )
        index = _draw(self.mdp.start_probability, self.np_random)
        self._state = int(self.mdp.start_states[index])
        self._steps = 0
        self._over = False
        return self._state, {"prob": float(self.mdp.start_probability[index])}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise InvalidInputError("TabularEnv.step: the episode is over or has not begun, call reset first")
        move = as_index(action, self.mdp.n_actions)
        if move < 0:
            raise InvalidInputError(
                f"TabularEnv.step: action is {shown(action)}, must be in 0..{self.mdp.n_actions - 1}"
            )
        mdp = self.mdp
        chance = 1.0
        place: tuple[int, ...] = (self._state, move)
        if mdp.probability is not None:
            k = _draw(mdp.probability[place], self.np_random)
            chance = float(mdp.probability[place][k])
            place = (*place, k)
        self._state = int(mdp.next_state[place])
        self._steps = self._steps + 1
        terminated = bool(mdp.terminated[place])
        truncated = not terminated and self._steps == mdp.horizon
        self._over = terminated or truncated
        return self._state, float(mdp.reward[place]), terminated, truncated, {"prob": chance}

    def render(self) -> Any:
        if self.render_mode is None:
            raise InvalidInputError("TabularEnv.render: made without a render_mode, make it with 'ansi' or 'rgb_array'")
        if self._state < 0:
            raise InvalidInputError("TabularEnv.render: there is no state to show yet, call reset first")
        return self.picture.ansi(self._state) if self.render_mode == "ansi" else self.picture.rgb(self._state)


def _draw(probability: npt.NDArray[np.float64], rng: np.random.Generator) -> int:
    """An index drawn by one uniform number; the last one possible where rounding leaves a gap at the top."""
    index = int(np.searchsorted(np.cumsum(probability), rng.random(), side="right"))
    return min(index, int(np.flatnonzero(probability)[-1]))
