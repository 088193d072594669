"""What ``transfer`` returns: every return and arm, who was dropped, what was learned, which policy to keep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster import figures
from pastmaster.arrays import FloatArray
from pastmaster.checks import whole
from pastmaster.errors import InvalidInputError
from pastmaster.values import Bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CONFIDENCE = 0.95


class TrialResult(NamedTuple):
    """One trial: returns and arms [T], the selector, learner and bounds as they ended, how many returns were clipped,
    how often the bounds were widened, and the episode at which the last selector began.
    """

    returns: FloatArray
    arms: npt.NDArray[np.int32]
    selector: Any
    learner: Any
    bounds: Bounds | None
    clipped: int
    widened: int
    begun: int


@dataclass(frozen=True, eq=False, repr=False)
class TransferRun:
    """``trials`` runs of T episodes with c sources; arm c is the learner."""

    returns: FloatArray
    """The discounted return of every episode [trials, T]."""
    arms: npt.NDArray[np.int32]
    """The arm that ran it [trials, T]."""
    eliminated_at: npt.NDArray[np.int64]
    """After how many episodes each source was dropped, -1 if it was not [trials, c]."""
    clipped: npt.NDArray[np.int64]
    """Returns moved onto the bounds [trials]."""
    widened: npt.NDArray[np.int64]
    """Restarts with wider bounds [trials]."""
    recommended: npt.NDArray[np.int64]
    """The arm with the best evidence of its own [trials]: the largest lower confidence bound on its mean return; of the
    learner only the last quarter of its episodes count, since it changes."""
    selectors: list[Any]
    """The selectors as they ended."""
    learners: list[Any]
    """The learners as they ended."""
    sources: list[Any]
    """The source policies."""
    bounds: list[Bounds | None]
    """The bounds on a return as they ended."""
    bounds_from: str
    """Where they came from: "declared", the "task" (its reward range), or "running" (the returns seen, doubled)."""

    @classmethod
    def of(cls, results: list[TrialResult], sources: list[Any], bounds_from: str = "declared") -> TransferRun:
        """The trials together."""
        returns, arms = np.stack([r.returns for r in results]), np.stack([r.arms for r in results])
        return cls(
            returns,
            arms,
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
        """The cumulative reward of each trial [trials]."""
        total: FloatArray = self.returns.sum(axis=1)
        return total

    @property
    def best_trial(self) -> int:
        """The trial of the largest total."""
        return int(self.total.argmax())

    @property
    def policy(self) -> Any:
        """The learner's final policy, of the best trial: greedy actions [S], or a function of the observation."""
        learner = self.learners[self.best_trial]
        return getattr(learner, "policy", learner.act)

    @property
    def recommended_policy(self) -> Any:
        """The policy of the recommended arm, of the best trial."""
        arm = int(self.recommended[self.best_trial])
        return self.policy if arm == self.n_sources else self.sources[arm]

    def shares(self, window: int | None = None) -> FloatArray:
        """How often each arm ran, over trials and windows of episodes [windows, c + 1]."""
        edges = _edges(self.returns.shape[1], window)
        counts = [np.bincount(self.arms[:, a:b].ravel(), minlength=self.n_sources + 1) for a, b in edges]
        return np.array([count / count.sum() for count in counts])

    def curve(self, window: int | None = None) -> Curve:
        """Mean return per window of episodes, with 95% intervals over trials."""
        edges = _edges(self.returns.shape[1], window)
        means = np.stack([self.returns[:, a:b].mean(axis=1) for a, b in edges], axis=1)
        return Curve(np.array([0.5 * (a + b) for a, b in edges]), *interval(means))

    def plot(self, optimum: float | None = None) -> Figure:
        """The learning curve above, the arms' shares of the episodes below, eliminations marked.

        ``optimum``, what an optimal policy would earn, is drawn if given. Save it by ``.savefig(path)``.
        """
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
            whence = "of the task" if self.bounds_from == "task" else "running"
            odd += f", bounds {whence}: {bounds.lower:.4g} .. {bounds.upper:.4g}"
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
    """The learning curves of several runs in one picture, by name, with what an optimal policy would earn."""
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
    edges = _edges(run.returns.shape[1], None)
    middles, shares = [0.5 * (a + b) for a, b in edges], run.shares()
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
        axes.plot(
            dropped,
            np.full(len(dropped), 1.02),
            "kv",
            markersize=4,
            clip_on=False,
            label="a source is dropped in a trial",
        )
    axes.set(xlabel="episode", ylabel="share of episodes", ylim=(0, 1.05), title="Who ran the episodes")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")


def _edges(episodes: int, window: int | None) -> list[tuple[int, int]]:
    """Windows of episodes, 100 of them unless told how long."""
    length = max(1, episodes // 100) if window is None else whole("TransferRun", "window", window, at_least=1)
    return [(start, min(start + length, episodes)) for start in range(0, episodes, length)]


def _eliminations(result: TrialResult, n_sources: int) -> npt.NDArray[np.int64]:
    dropped = np.asarray(getattr(result.selector, "eliminated_at", np.full(n_sources, -1)), np.int64)
    return np.where(dropped >= 0, dropped + result.begun, -1)


def _best_arm(result: TrialResult, n_sources: int) -> int:
    """The arm of the largest mean - span sqrt(ln(20 (c + 1)) / 2 n): each bound fails with probability 5% / (c + 1)."""
    if getattr(result.selector, "mixes", False):
        return n_sources  # mixed episodes tell of no source
    declared = getattr(result.selector, "bounds", None) if result.bounds is None else result.bounds
    span = float(np.ptp(result.returns)) if declared is None else declared[1] - declared[0]
    bounds = np.full(n_sources + 1, -np.inf)
    for arm in range(n_sources + 1):
        own = result.returns[result.arms == arm]
        if arm == n_sources:
            own = own[3 * len(own) // 4 :]
        if len(own):
            bounds[arm] = own.mean() - span * math.sqrt(math.log(20 * (n_sources + 1)) / (2 * len(own)))
    return int(bounds.argmax())
