"""Q-learning, the arm that learns the new task from scratch.

    Q(s, a) += step (r + gamma max_a' Q(s', a') - Q(s, a)),

without the value of s' where the episode terminated (but with it where the horizon cut it off). Actions are
epsilon-greedy, ties between best actions broken at random; one uniform number decides each. The step size may depend on
how often (s, a) was updated, epsilon on how many episodes of its own the learner has had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np

from pastmaster.arrays import FloatArray, IntArray, as_floats, sealed
from pastmaster.checks import as_index, as_number, as_real, chosen, flag, is_finite, plain_number, within
from pastmaster.errors import InvalidInputError
from pastmaster.generators import checked_rng
from pastmaster.reuse.protocols import Space
from pastmaster.tables import one_line, shown
from pastmaster.tasks.spaces import discrete_size

LearnFrom = Literal["own", "every"]
Schedule = float | Callable[[int], float] | Sequence[float] | FloatArray
LONGEST_SCHEDULE = 100_000


@dataclass(frozen=True)
class decay:  # noqa: N801  a function with a name, so that it prints as it was called
    """A schedule that falls as ``first / (1 + n / half)``.

    Parameters
    ----------
    first, half : float
        The value at n = 0, in 0 .. 1, and the n at which half of it is left.

    Examples
    --------
    >>> from pastmaster import decay
    >>> decay(0.1, 500)(500)
    0.05
    """

    first: float
    half: float

    def __post_init__(self) -> None:
        within("decay", "first", self.first, 0.0, 1.0)
        object.__setattr__(self, "first", plain_number(self.first))
        object.__setattr__(self, "half", plain_number(self.half))
        if not as_real(self.half) > 0:
            raise InvalidInputError(f"decay: half is {shown(self.half)}, must be a number above 0")

    def __call__(self, n: int) -> float:
        return self.first / (1.0 + n / self.half)


@dataclass(frozen=True, repr=False)
class QLearning:
    """Settings of a Q-learner, the learner of ``transfer`` for Discrete observations and actions.

    Parameters
    ----------
    step_size, epsilon : schedule
        The step size by the number of updates of (s, a) so far, the exploration rate by that of the learner's own
        episodes: a number, a function of n (tabulated for the first 100,000), or a list by n whose last entry stays.
    initial : float
        The first value of every Q(s, a).
    learn_from : {"own", "every"}
        Learn from its own episodes, as the analysis assumes, or from every arm's.

    Examples
    --------
    >>> from pastmaster import QLearning, decay
    >>> QLearning(epsilon=decay(0.1, 500))
    QLearning(step_size=0.5, epsilon=decay(first=0.1, half=500), initial=0.0, learn_from='own')
    """

    step_size: Schedule = 0.5
    epsilon: Schedule = 0.1
    initial: float = 0.0
    learn_from: LearnFrom = "own"

    def __post_init__(self) -> None:
        chosen("QLearning", "learn_from", self.learn_from, get_args(LearnFrom))
        if not abs(as_number(self.initial)) <= 1e300:
            raise InvalidInputError(
                f"QLearning: initial is {shown(self.initial)}, must be a finite number, at most 1e300"
            )
        object.__setattr__(self, "initial", plain_number(self.initial))
        _ = self.steps, self.epsilons  # a schedule that cannot be tabulated is refused here

    @cached_property
    def steps(self) -> FloatArray:
        """The step sizes, whose last entry stays."""
        return tabulated("step_size", self.step_size)

    @cached_property
    def epsilons(self) -> FloatArray:
        """The exploration rates, whose last entry stays."""
        return tabulated("epsilon", self.epsilon)

    def __repr__(self) -> str:
        schedules = [one_line(shown(schedule), 30) for schedule in (self.step_size, self.epsilon)]
        told = f"step_size={schedules[0]}, epsilon={schedules[1]}"
        return one_line(f"QLearning({told}, initial={self.initial}, learn_from={self.learn_from!r})")

    @property
    def identity(self) -> list[Any]:
        """All that its learners depend on, as arrays and plain values."""
        return [self.steps, self.epsilons, self.initial, self.learn_from]

    def start(self, observations: Space, actions: Space, gamma: float, rng: np.random.Generator) -> QLearner:
        """Return a learner that knows nothing yet, for Discrete observations and actions."""
        n_states, n_actions = discrete_size(observations), discrete_size(actions)
        if n_states is None or n_actions is None:
            raise InvalidInputError(
                f"QLearning.start: got {shown(observations)} and {shown(actions)}, must be Discrete observations and "
                "actions from 0"
            )
        caller = "QLearning.start"
        gamma = within(caller, "gamma", gamma, 0.0, 1.0)
        return QLearner(self, n_states, n_actions, gamma, checked_rng(caller, rng))


def tabulated(name: str, schedule: Schedule) -> FloatArray:
    """A schedule as an array whose last entry stays."""
    refused = f"QLearning: {name} is {shown(schedule)}, must be numbers in 0 .. 1"
    try:
        values = _first_values(schedule) if callable(schedule) else schedule
        table = np.atleast_1d(as_floats(values, f"QLearning: {name}"))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise InvalidInputError(refused) from error
    if table.ndim != 1 or not len(table) or not ((table >= 0) & (table <= 1)).all():
        raise InvalidInputError(refused)
    return sealed(table)


def _first_values(schedule: Callable[[int], float]) -> Any:
    if type(schedule) is decay:  # that of every task by default
        return _decaying(schedule)
    return [schedule(n) for n in range(LONGEST_SCHEDULE)]


@lru_cache(maxsize=16)
def _decaying(schedule: decay) -> FloatArray:
    return sealed(np.array([schedule(n) for n in range(LONGEST_SCHEDULE)]))


class QLearner:
    """A running Q-learner over states 0 .. S - 1. The compiled episodes work on these same arrays."""

    def __init__(
        self, settings: QLearning, n_states: int, n_actions: int, gamma: float, rng: np.random.Generator
    ) -> None:
        self.Q = np.full((n_states, n_actions), float(settings.initial))
        self.steps, self.epsilons = settings.steps, settings.epsilons
        self.visits = np.zeros((n_states, n_actions) if len(self.steps) > 1 else (0, 0), np.int64)
        self.own_episodes = np.zeros(1, np.int64)
        self.gamma, self.rng = gamma, rng

    @property
    def epsilon(self) -> float:
        """The exploration rate of the next own episode."""
        return float(self.epsilons[min(self.own_episodes[0], len(self.epsilons) - 1)])

    @property
    def policy(self) -> IntArray:
        """The greedy policy [S], ties to the lowest action."""
        return np.asarray(self.Q.argmax(axis=1), np.int32)

    def __repr__(self) -> str:
        states, actions = self.Q.shape
        return f"QLearner({states} states, {actions} actions, {int(self.own_episodes[0]):,} episodes of its own)"

    def _row(self, state: Any) -> list[float]:
        """The values of all actions in a state."""
        return self.Q[self._index("state", state, len(self.Q))].tolist()  # type: ignore[no-any-return]

    def _index(self, name: str, value: Any, size: int) -> int:
        if type(value) is int and 0 <= value < size:  # at every step: as quick as can be
            return value
        index = as_index(value, size)
        if index < 0:
            raise InvalidInputError(f"QLearner: {name} is {shown(value)}, must be a whole number in 0..{size - 1}")
        return index

    def act(self, state: int, epsilon: float | None = None) -> int:
        """An epsilon-greedy action, drawn by one uniform number."""
        epsilon = self.epsilon if epsilon is None else within("QLearner.act", "epsilon", epsilon, 0.0, 1.0)
        row, u = self._row(state), self.rng.random()
        if u < epsilon:
            return min(int(u / epsilon * len(row)), len(row) - 1)
        best = max(row)
        ties = [a for a, q in enumerate(row) if q == best]
        return ties[min(int((u - epsilon) / (1.0 - epsilon) * len(ties)), len(ties) - 1)] if len(ties) > 1 else ties[0]

    def likelihood(self, state: int, action: int) -> float:
        """How likely ``act`` is to take the action."""
        row = self._row(state)
        action = self._index("action", action, len(row))
        best = max(row)
        greedy = (1.0 - self.epsilon) / row.count(best) if row[action] == best else 0.0
        return self.epsilon / len(row) + greedy

    def learn(self, state: int, action: int, reward: float, next_observation: int, terminated: bool) -> None:
        """One update of Q."""
        place = self._index("state", state, len(self.Q)), self._index("action", action, self.Q.shape[1])
        if not is_finite(reward):
            raise InvalidInputError(f"QLearner.learn: reward is {shown(reward)}, must be a finite number")
        target = float(reward)
        if not flag("QLearner.learn", "terminated", terminated):
            target += self.gamma * max(self._row(next_observation))
        if len(self.steps) > 1:
            step = float(self.steps[min(self.visits[place], len(self.steps) - 1)])
            self.visits[place] += 1
        else:
            step = float(self.steps[0])
        old = float(self.Q[place])
        self.Q[place] = old + step * (target - old)

    def unlearn(self, changes: list[tuple[int, int, float]]) -> None:
        """Take back updates, given as (state, action, Q before)."""
        for state, action, old in reversed(changes):
            self.Q[state, action] = old
            if len(self.steps) > 1:
                self.visits[state, action] -= 1

    def end_own_episode(self) -> None:
        """An episode of its own is over."""
        self.own_episodes[0] += 1
