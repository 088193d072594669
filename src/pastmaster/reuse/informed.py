"""The informed selector: what the sources were worth in old tasks says what they are worth in the new one.

One return of one source says which old tasks the new one resembles, and so what all other sources are worth. So tens of
episodes find what takes a bandit thousands. The model is in ``_model_kernels``, what it learns from the old tasks alone
in ``experience``. Whatever the experience says, right or wrong, it only chooses among the sources: `RegretBalancing`
is what remains where it is refuted, and the guarantees are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.checks import whole
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng
from pastmaster.reuse import _layout as layout, _model_kernels as kernels, selector
from pastmaster.reuse.experience import as_experience, likeness
from pastmaster.reuse.regret_balancing import QUIET, RegretBalancing

LIKENESS = [layout.DEVIATION_OF_TASKS, layout.ODD, layout.UNLIKE, layout.DEVIATION_OF_NOISE]

# What is learned from the old tasks alone has limits. However alike they are, one source in 50 may be worth something
# else in the new task; and however little they have in common, it is worth while to look among them first.
LEAST_ODD, MOST_ODD = 0.02, 0.1
MOST_UNLIKE = 0.2
LARGEST = 1e100  # number of an experience, in spans of the bounds


class Informed(RegretBalancing):
    """Choose by what the sources were worth in the tasks met before. ``transfer`` uses it where it has experience.

    Parameters
    ----------
    n_sources, episodes : int
        As for `RegretBalancing`.
    experience : array_like [N, c], Experience, DataFrame or CrossValueEstimate
        What each source was worth in each of N tasks met before, in units of return.
    bounds, kappa, preference, delta, check_every, clip, rng
        As for `RegretBalancing`.

    Examples
    --------
    >>> from pastmaster import Informed
    >>> experience = [[0.9, 0.1, 0.2], [0.1, 0.9, 0.2], [0.3, 0.2, 0.8]]
    >>> selector = Informed(3, 20, bounds=(0, 1), experience=experience, rng=0)
    >>> arms = []
    >>> for _ in range(4):
    ...     episode = selector.ask()
    ...     selector.tell(episode, [0.1, 0.9, 0.2, 0.0][episode.arm])
    ...     arms.append(episode.arm)
    >>> arms  # one return of the first source tells which task this is
    [0, 1, 1, 1]
    """

    name = "informed"
    informed = True

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        experience: Any,
        kappa: float = 0.25,
        preference: float = 20.0,
        delta: float = 0.1,
        check_every: int = 10,
        clip: bool = False,
        rng: Rng = None,
    ) -> None:
        n_sources = whole(type(self).__name__, "n_sources", n_sources, at_least=0, at_most=selector.MOST_SOURCES)
        self.experience = as_experience(type(self).__name__, experience, n_sources)
        self._begin(
            rng, n_sources=n_sources, episodes=episodes, bounds=bounds, experience=self.experience.sources, kappa=kappa,
            preference=preference, delta=delta, check_every=check_every, clip=clip,
        )  # fmt: skip
        (lower, _), span, known = self.bounds, self.bounds.span, self.experience
        if known.largest > LARGEST * span:
            raise InvalidInputError(
                f"{type(self).__name__}: experience has numbers as large as {known.largest:g}, must be at most "
                f"{LARGEST:g} times the bounds' span, {span:g}: their squares are computed with"
            )
        self._table(layout.VALUES)[:] = (np.column_stack([known.values, known.best_known]) - lower) / span
        payoffs = self._table(layout.VALUES)
        if known.errors is not None:
            self._table(layout.ERRORS)[:, :-1] = (known.errors / span) ** 2
        self._table(layout.SPREADS)[:] = -1.0
        spreads = None if known.spread is None else (known.spread / span) ** 2
        if spreads is not None:
            self._table(layout.SPREADS)[:, :-1] = spreads
            self._settings[layout.NOISE_BEFORE] = self._memory[layout.NOISE] = max(QUIET, float(spreads.mean()))
        self._arms[layout.PRIOR_MEAN], self._arms[layout.PRIOR_VARIANCE] = payoffs.mean(axis=0), payoffs.var(axis=0)
        found = likeness(payoffs[:, :-1], spreads)
        odd = min(max(found.odd, LEAST_ODD), MOST_ODD)
        self._settings[LIKENESS] = found._replace(odd=odd, unlike=min(found.unlike, MOST_UNLIKE))

    def _rows(self) -> int:
        return layout.EXPERIENCE + layout.TABLES * len(self.experience.values)

    def _table(self, which: int, arms: FloatArray | None = None) -> FloatArray:
        """One of the tables of old tasks [N, c + 1]; of these ``arms``, by default the selector's."""
        n = len(self.experience.values)
        return (self._arms if arms is None else arms)[layout.EXPERIENCE + which * n :][:n]

    def _plain_arguments(self) -> dict[str, Any]:
        return super()._plain_arguments() | {"experience": self.experience.to_dict()}

    def _given_arrays(self) -> list[FloatArray | None]:
        return self.experience.arrays

    def _take(self, state: Mapping[str, Any]) -> None:
        super()._take(state)
        self._arms[layout.CHANGED, :-1] = 1.0

    @property
    def alike(self) -> FloatArray:
        """How likely the new task is to be like each old one, and last, like none [N + 1]."""
        with selector.LOCK:  # a fork makes a new one
            arms = self._arms.copy()
            kernels.catch_up(arms, self._memory.copy(), self._settings)
            none = kernels.weigh_tasks(arms, self._settings)
            return np.append(self._table(layout.LIKELIHOODS, arms)[:, -1], none)
