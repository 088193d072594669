"""UCB1.

Auer, Cesa-Bianchi and Fischer 2002, "Finite-time analysis of the multiarmed bandit problem",
Machine Learning 47: each source once, then the one with the largest

    mean_j + sqrt(2 ln n / n_j),

n_j its episodes, n all of them. Theorem 1: after n episodes the payoffs lost to the best source
are, in expectation, at most 8 sum_j ln n / gap_j + (1 + pi^2 / 3) sum_j gap_j, summed over the
sources that are worse by gap_j > 0.
"""

from __future__ import annotations

import math

import numpy as np

from pastmaster_paper.rivals.rival import Rival, Rng


class UCB1(Rival):
    """The source with the largest upper confidence bound; ties go to the first.

    Parameters
    ----------
    n_sources, episodes : int
        The number of sources, c; the number of episodes, which is not used.
    bounds : (float, float)
        The lower and upper bound of a return.
    rng : int, Generator or None
        Not used.

    Examples
    --------
    >>> from pastmaster_paper.rivals import UCB1
    >>> selector = UCB1(3, bounds=(0, 1))
    >>> for _ in range(300):
    ...     arm = selector.ask()
    ...     selector.tell(arm, [0.9, 0.1, 0.5][arm])
    >>> selector.counts.tolist()
    [257.0, 12.0, 31.0]
    """

    def __init__(
        self, n_sources: int, episodes: int | None = None, *, bounds: tuple[float, float], rng: Rng = None
    ) -> None:
        super().__init__(n_sources, bounds, rng)

    def choose(self, chance: float) -> int:
        untried = np.flatnonzero(self.counts == 0.0)
        if len(untried):
            return int(untried[0])
        width = np.sqrt(2.0 * math.log(self.counts.sum()) / self.counts)
        return int(np.argmax(self.totals / self.counts + width))
