"""The result of ``transfer``: every return and arm, the sources dropped, the learners, the policy to keep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pastmaster import figures
from pastmaster.arrays import FloatArray, IntArray, LongArray
from pastmaster.errors import InvalidInputError
from pastmaster.reuse.protocols import adapted, policy_to_keep
from pastmaster.reuse.windows import windows
from pastmaster.values import Bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CONFIDENCE = 0.95


class TrialResult(NamedTuple):
    """One trial; selector, learner and bounds as they ended, ``begun`` the episode at which the last selector began."""

    returns: FloatArray
    arms: IntArray
    selector: Any
    learner: Any
    bounds: Bounds | None
    clipped: int
    widened: int
    begun: int


@dataclass(frozen=True, eq=False, repr=False)
class TransferRun:
    """What ``transfer`` returns: ``trials`` runs of T episodes with c sources; arm c is the learner.

    Attributes
    ----------
    returns, arms : array [trials, T]
        The discounted return of every episode, and the arm that ran it.
    eliminated_at : array [trials, c]
        After how many episodes each source was dropped, -1 if it was not.
    clipped, widened : array [trials]
        How many returns were moved onto the bounds, and how often the selector was restarted with wider bounds.
    recommended : array [trials]
        The arm with the largest lower confidence bound on its mean return. Of the learner, which changes, only the last
        quarter of its episodes count.
    selectors, learners, bounds, sources : list
        The selector, the learner and the bounds on a return of each trial, as they ended; the source policies.
    bounds_from : str
        Where the bounds came from: "declared", the "task" (its reward range), or "running" (the returns seen, doubled).

    Examples
    --------
    >>> import numpy as np
    >>> from pastmaster import TabularMDP, transfer
    >>> task = TabularMDP([[0, 0]], [[0.0, 1.0]], terminated=[[True, True]], gamma=0.9)
    >>> run = transfer(task, [[1]], episodes=200, bounds=(0, 1), trials=2, rng=np.random.default_rng(0))
    >>> run.curve(100).mean.shape, run.shares(100).shape, run.recommended_policy.tolist()
    ((2,), (2, 2), [1])
    """

    returns: FloatArray
    arms: IntArray
    eliminated_at: LongArray
    clipped: LongArray
    widened: LongArray
    recommended: LongArray
    selectors: list[Any]
    learners: list[Any]
    sources: list[Any]
    bounds: list[Bounds | None]
    bounds_from: str

    @classmethod
    def of(cls, results: list[TrialResult], sources: list[Any], bounds_from: str = "declared") -> TransferRun:
        """The trials together."""
        return cls(
            np.stack([r.returns for r in results]),
            np.stack([r.arms for r in results]),
            np.stack([_eliminations(r, len(sources)) for r in results]),
            np.array([r.clipped for r in results]),
            np.array([r.widened for r in results]),
            np.array([_best_arm(r, len(sources)) for r in results]),
            [r.selector for r in results],
            [r.learner for r in results],
            sources,
            [r.bounds for r in results],
            bounds_from,
        )

    @property
    def n_sources(self) -> int:
        return len(self.sources)

    @property
    def total(self) -> FloatArray:
        """The sum of the returns of each trial [trials]."""
        total: FloatArray = self.returns.sum(axis=1)
        return total

    @property
    def best_trial(self) -> int:
        """The trial with the largest total."""
        return int(self.total.argmax())

    @property
    def policy(self) -> Any:
        """The learner's final policy in the best trial: greedy actions [S], or a function of the observation."""
        return policy_to_keep(self.learners[self.best_trial])

    @property
    def recommended_policy(self) -> Any:
        """The policy of the recommended arm in the best trial."""
        arm = int(self.recommended[self.best_trial])
        return self.policy if arm == self.n_sources else self.sources[arm]

    def shares(self, window: int | None = None) -> FloatArray:
        """Return how often each arm ran, as a share of the episodes of all trials [windows, c + 1]; see ``curve``."""
        counts = windows(self.returns.shape[1], window, "TransferRun").counts(self.arms, self.n_sources + 1)
        shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
        return shares

    def curve(self, window: int | None = None) -> Curve:
        """Return the mean return of each window of episodes, with 95% intervals over trials.

        ``window`` is the number of episodes in a window; by default there are about 100 windows. The result has
        ``episode`` (the middles of the windows), ``mean``, ``low`` and ``high``, each [windows].
        """
        cut = windows(self.returns.shape[1], window, "TransferRun")
        return Curve(cut.middles, *interval(cut.means(self.returns)))

    def plot(self, optimum: float | None = None) -> Figure:
        """Draw the learning curve and, below it, the arms' shares of the episodes; ``optimum`` as for `plot_curves`."""
        figure, (above, below) = figures.new_figure(8, 7, nrows=2, sharex=True)
        draw_curves(above, {"mean return": self}, optimum)
        above.set_xlabel("")
        _draw_shares(below, self)
        return figure

    def __repr__(self) -> str:
        trials, episodes = self.returns.shape
        mean, low, high = interval(self.total[:, None] / episodes)
        spread = f" (95%: {low[0]:.4g} .. {high[0]:.4g})" if trials > 1 else ""
        arm = int(self.recommended[self.best_trial])
        keep = "the learner" if arm == self.n_sources else f"source {arm}"
        odd = f", {int(self.clipped.sum())} returns clipped" if self.clipped.any() else ""
        odd += f", bounds widened {int(self.widened.sum())} times" if self.widened.any() else ""
        if self.bounds_from != "declared" and (bounds := self.bounds[self.best_trial]) is not None:
            origin = "of the task" if self.bounds_from == "task" else "running"
            odd += f", bounds {origin}: {bounds.lower:.4g} .. {bounds.upper:.4g}"
        return (
            f"TransferRun({trials} x {episodes:,} episodes, {self.n_sources} sources: "
            f"mean return {mean[0]:.4g}{spread}, {100 * (self.arms == self.n_sources).mean():.0f}% by the learner, "
            f"keep {keep}{odd})"
        )


class Curve(NamedTuple):
    """Means at the middles of windows of episodes, with the ends of their intervals, each [windows]."""

    episode: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


def interval(samples: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean over the rows of [n, m], and the ends of its 95% interval (Student's t); the mean itself if n is 1."""
    n, mean = len(samples), samples.mean(axis=0)
    if n == 1:
        return mean, mean, mean
    from scipy.stats import t

    half = t.ppf(0.5 + CONFIDENCE / 2, n - 1) * samples.std(axis=0, ddof=1) / math.sqrt(n)
    return mean, mean - half, mean + half


def plot_curves(runs: Mapping[str, TransferRun], optimum: float | None = None) -> Figure:
    """Draw the learning curves of several runs in one picture.

    Parameters
    ----------
    runs, optimum : mapping of str to TransferRun, float
        The runs by their names in the legend; the value of an optimal policy, drawn as a line if it is given.

    Returns
    -------
    matplotlib.figure.Figure
        The picture; ``.savefig(path)`` writes it to a file.

    Examples
    --------
    >>> import numpy as np
    >>> from pastmaster import TabularMDP, plot_curves, transfer
    >>> task = TabularMDP([[0, 0]], [[0.0, 1.0]], terminated=[[True, True]], gamma=0.9)
    >>> run = transfer(task, [], episodes=50, bounds=(0, 1), rng=np.random.default_rng(0))
    >>> figure = plot_curves({"Q-learning alone": run}, optimum=1.0)
    """
    if not runs:
        raise InvalidInputError("plot_curves: runs is empty, must hold at least one TransferRun")
    figure, axes = figures.new_figure(8, 4.8)
    draw_curves(axes, runs, optimum)
    return figure


def draw_curves(axes: Axes, runs: Mapping[str, TransferRun], optimum: float | None = None) -> None:
    """Learning curves with their intervals, on given axes."""
    for i, (label, run) in enumerate(runs.items()):
        curve, style = run.curve(), figures.line_style(i)
        axes.plot(curve.episode, curve.mean, label=label, **style)
        axes.fill_between(curve.episode, curve.low, curve.high, color=style["color"], alpha=0.2, linewidth=0)
    if optimum is not None:
        axes.axhline(optimum, color="black", linestyle=":", linewidth=1.2, label="optimal policy")
    trials = {len(run.returns) for run in runs.values()}
    many = f"{trials.copy().pop()} trials" if len(trials) == 1 else "trials"
    band = f", 95% intervals over {many}" if max(trials) > 1 else ""
    axes.set(xlabel="episode", ylabel="mean return per episode", title="Learning curve" + band)
    axes.legend(loc="best", fontsize="small")
    axes.grid(alpha=0.3)


def _draw_shares(axes: Axes, run: TransferRun) -> None:
    """Stacked shares: the learner first, then the sources most used, those with little together."""
    middles, shares = windows(run.returns.shape[1]).middles, run.shares()
    order = [int(i) for i in np.argsort(-shares[:, :-1].sum(axis=0), kind="stable")]
    shown = [i for i in order[:8] if shares[:, i].mean() >= 0.005]
    others = order[len(shown) :]
    rows, labels = [shares[:, -1], *(shares[:, i] for i in shown)], ["learner", *(f"source {i}" for i in shown)]
    colours = ["0.35", *(figures.line_style(i)["color"] for i in range(len(shown)))]
    if others:
        rows.append(shares[:, others].sum(axis=1))
        labels.append(f"the other {len(others)} sources")
        colours.append("0.85")
    axes.stackplot(middles, rows, labels=labels, colors=colours)
    dropped = run.eliminated_at[run.eliminated_at >= 0]
    if len(dropped):
        label = "a source is dropped in a trial"
        axes.plot(dropped, np.full(len(dropped), 1.02), "kv", markersize=4, clip_on=False, label=label)
    axes.set(xlabel="episode", ylabel="share of episodes", ylim=(0, 1.05), title="Who ran the episodes")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")


def _eliminations(result: TrialResult, n_sources: int) -> LongArray:
    known = adapted(result.selector).eliminated_at
    dropped = np.full(n_sources, -1) if known is None else np.asarray(known, np.int64)
    return np.where(dropped >= 0, dropped + result.begun, -1)


def _best_arm(result: TrialResult, n_sources: int) -> int:
    """The arm of the largest mean - span sqrt(ln(20 (c + 1)) / 2 n): each bound fails with probability 5% / (c + 1)."""
    selector = adapted(result.selector)
    if selector.mixes:
        return n_sources  # mixed episodes are evidence about no source
    declared = selector.bounds if result.bounds is None else result.bounds
    span = float(np.ptp(result.returns)) if declared is None else declared[1] - declared[0]
    bounds = np.full(n_sources + 1, -np.inf)
    for arm in range(n_sources + 1):
        own = result.returns[result.arms == arm]
        if arm == n_sources:
            own = own[3 * len(own) // 4 :]
        if len(own):
            bounds[arm] = own.mean() - span * math.sqrt(math.log(20 * (n_sources + 1)) / (2 * len(own)))
    return int(bounds.argmax())
