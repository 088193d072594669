"""How much is lost with 1, 2, 3, ... policies: the least mean loss over k, and what it cannot be below."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pastmaster import figures
from pastmaster.arrays import FloatArray, LongArray
from pastmaster.checks import flag, whole, within
from pastmaster.clustering.losses import Losses
from pastmaster.clustering.partition import Clustering
from pastmaster.clustering.told import told_losses
from pastmaster.generators import Rng, seeded
from pastmaster.tables import counted, frame, one_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CALLER = "keep_curve"
MOST = 20  # policies that a curve goes up to by itself
DRAWN = 5.0  # seconds for the curve of a picture


@dataclass(frozen=True, eq=False, repr=False)
class KeepCurve:
    """The least mean loss with k policies, for one k after the other.

    Attributes
    ----------
    answers : tuple of Clustering
        What ``keep(scores, k=k)`` says for each k.
    k, mean_loss, lower_bound : ndarray
        Numbers of policies, the mean loss found with so many, and what no choice of so many can be below (nan if not
        certified).
    elbow : int
        The k after which a further policy saves little: where the curve is farthest below the straight line between
        its ends.
    seed : int or None
        ``rng=seed`` gives the same curve; None where a generator was given.
    begins : str
        Why the curve begins with more than one policy; empty where it begins with one.
    """

    answers: tuple[Clustering, ...]
    seed: int | None = None
    begins: str = ""

    @property
    def k(self) -> LongArray:
        return np.array([answer.n_clusters for answer in self.answers])

    @property
    def mean_loss(self) -> FloatArray:
        return np.array([answer.mean_loss for answer in self.answers])

    @property
    def lower_bound(self) -> FloatArray:
        bounds = [math.nan if a.lower_bound is None else a.lower_bound for a in self.answers]
        return np.array(bounds)

    @property
    def elbow(self) -> int:
        k, loss = self.k, self.mean_loss
        if loss[-1] == 0.0:  # the curve would go on, flat
            k, loss = np.append(k, k[-1] + 1), np.append(loss, 0.0)
        share = (k - k[0]) / max(1, k[-1] - k[0])
        return int(k[np.argmax(loss[0] + share * (loss[-1] - loss[0]) - loss)])

    def __repr__(self) -> str:
        return one_line(str(self))

    def __str__(self) -> str:
        k, loss = self.k, self.mean_loss
        ends = f"{loss[0]:.4g} with {counted(int(k[0]), 'policy')} to {loss[-1]:.4g} with {k[-1]}"
        why = f"; {self.begins}" if self.begins else ""
        return f"KeepCurve(mean loss {ends}, elbow at {self.elbow}{why})"

    def table(self) -> list[dict[str, Any]]:
        """For each k: mean loss, bound, largest loss, the policies."""
        return [
            {
                "k": answer.n_clusters,
                "mean_loss": answer.mean_loss,
                "lower_bound": answer.lower_bound,
                "largest_loss": answer.largest_loss,
                "policies": answer.policies,
            }
            for answer in self.answers
        ]

    def to_frame(self) -> pd.DataFrame:
        """``table()`` as a pandas DataFrame; the policies of a row are one text."""
        return frame([row | {"policies": ", ".join(map(str, row["policies"]))} for row in self.table()])

    def plot(self) -> Figure:
        """The curve, its lower bounds, and the elbow."""
        from pastmaster.clustering.picture import draw_curve

        figure, axes = figures.new_figure()
        draw_curve(axes, self)
        return figure


def keep_curve(
    scores: Any,
    *,
    most: int | None = None,
    tasks: Any = None,
    policies: Any = None,
    weights: Any = None,
    must_keep: Any = None,
    never_keep: Any = None,
    lower_is_better: bool = False,
    certify: bool = True,
    time_limit: float = 30.0,
    rng: Rng = None,
) -> KeepCurve:
    """The least mean loss with 1, 2, 3, ... policies: how many are worth keeping?

    Parameters
    ----------
    scores, tasks, policies, weights, must_keep, never_keep, lower_is_better, certify, rng
        As for ``keep``.
    most : int, optional
        The largest number of policies; 20 by default. The curve ends where nothing is lost.
    time_limit : float
        About how many seconds to take, for all numbers together.

    Returns
    -------
    KeepCurve
        From the least number of policies that every task has tried one of, most of the time 1.

    Raises
    ------
    InvalidInputError
        As ``keep``.

    Examples
    --------
    >>> curve = keep_curve([[9, 4, 1], [8, 5, 2], [1, 6, 7], [0, 3, 8]])
    >>> curve.mean_loss.tolist(), curve.elbow
    ([3.5, 0.0], 2)
    """
    losses, table = told_losses(
        CALLER,
        scores,
        tasks=tasks,
        policies=policies,
        weights=weights,
        must_keep=must_keep,
        never_keep=never_keep,
        lower_is_better=lower_is_better,
    )
    n_allowed = int(losses.allowed.sum())
    size = None if most is None else whole(CALLER, "most", most, at_least=max(1, len(losses.must)), at_most=n_allowed)
    seconds, certify = within(CALLER, "time_limit", time_limit, 0.0, math.inf), flag(CALLER, "certify", certify)
    generator, seed = seeded(CALLER, rng)
    made = curve_of(losses, size, generator, seconds, certify)
    return KeepCurve(tuple(answer.named(table.tasks, table.policies) for answer in made.answers), seed, made.begins)


def curve_of(losses: Losses, most: int | None, rng: np.random.Generator, seconds: float, certify: bool) -> KeepCurve:
    """The curve of a table; each answer is where the search for the next begins."""
    deadline = time.perf_counter() + seconds
    n_allowed = int(losses.allowed.sum())
    tried = np.isfinite(losses.table)
    cover = losses.cover(tried, rng, time.perf_counter() + 0.2 * seconds, certify=not tried.all())
    start = cover.columns
    least = max(1, len(losses.must), len(start))
    last = max(least, min(n_allowed, MOST if most is None else most))
    answers = list[Clustering]()
    for k in range(least, last + 1):
        now = time.perf_counter()
        answer = losses.of_size(k, rng, now + max(0.0, deadline - now) / (last + 1 - k), certify, start)
        answers.append(answer)
        start = answer.columns
        if answer.mean_loss == 0.0 or answer.interrupted:
            break
    return KeepCurve(tuple(answers), begins=_why_not_fewer(least, len(losses.must), cover.lower_bound))


def _why_not_fewer(least: int, n_must: int, bound: float) -> str:
    """Why a curve begins with so many policies: ``bound`` policies at least are needed to serve every task."""
    if least == 1:
        return ""
    if least == n_must:
        return f"{least} must be kept"
    if bound > least - 1:
        return f"fewer than {least} leave a task untried"
    return f"fewer than {least} that leave no task untried were not found"


def curve_around(clustering: Clustering) -> KeepCurve:
    """The curve of the table that an answer of ``keep`` is about, up to somewhat more policies than it keeps."""
    losses = Losses(clustering.distance, clustering.must_keep, clustering.never_keep, clustering.weights)
    most = min(int(losses.allowed.sum()), max(10, clustering.n_clusters + 3))
    return curve_of(losses, most, np.random.default_rng(0), DRAWN, certify=clustering.lower_bound is not None)
