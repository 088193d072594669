"""The result of ``transfer``: every return and arm, the sources dropped, the learners, the policy to keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pastmaster import figures
from pastmaster.arrays import FloatArray, IntArray, LongArray
from pastmaster.checks import is_finite, is_number
from pastmaster.errors import InvalidInputError
from pastmaster.reuse.advice import CONFIDENCE, Advice, advise, lower_bounds
from pastmaster.reuse.drawing import draw_curves, draw_run
from pastmaster.reuse.episodes import Trial
from pastmaster.reuse.protocols import adapted
from pastmaster.reuse.sources import LEARNER, numbered
from pastmaster.reuse.windows import windows
from pastmaster.tables import WIDEST, counted, frame, html_table, one_line, shown
from pastmaster.values import Bounds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class TransferRun:
    """What ``transfer`` returns: ``trials`` runs of T episodes with c sources; arm c is the learner.

    Attributes
    ----------
    returns, arms : array [trials, T]
        The discounted return of every episode, and the arm that ran it.
    undiscounted : array [trials, T] or None
        The plain sum of the rewards of every episode; None where the episodes are compiled, as for a ``TabularMDP``.
    eliminated_at : array [trials, c]
        After how many episodes each source was dropped, -1 if it was not.
    clipped, widened : array [trials]
        How many returns were moved onto the bounds, and how often the selector was restarted with wider bounds.
    advice : list of Advice
        Which arm to keep in each trial, why, and the policy that the learner hands out: the ``Advice`` of
        ``pastmaster.reuse``.
    selectors, learners, bounds, sources : list
        The selector, the learner and the bounds on a return of each trial, as they ended; the source policies.
    bounds_from : str
        Where the bounds came from: "declared", the "task" (its model or its reward range), or "running" (the returns
        seen, doubled).
    arm_names : list [c + 1]
        What the sources are called, and "learner".
    gamma : float or None
        The discount of ``returns``.
    seed : int or None
        The seed of the run: ``rng=run.seed`` gives the same run again. None where a generator was given.

    Examples
    --------
    >>> from pastmaster import TabularMDP, transfer
    >>> task = TabularMDP([[0, 0]], [[0.0, 1.0]], terminated=[[True, True]], gamma=0.9)
    >>> run = transfer(task, {"old": [1]}, episodes=200, trials=2, rng=0)
    >>> run
    TransferRun(2 x 200 episodes, 1 source, mean return 1, keep old)
    >>> run.curve(100).mean.shape, run.shares(100).shape, run.recommended_policy.tolist()
    ((2,), (2, 2), [1])
    """

    returns: FloatArray
    arms: IntArray
    eliminated_at: LongArray
    clipped: LongArray
    widened: LongArray
    advice: list[Advice]
    selectors: list[Any]
    learners: list[Any]
    sources: list[Any]
    bounds: list[Bounds | None]
    bounds_from: str
    arm_names: list[str]
    gamma: float | None
    undiscounted: FloatArray | None
    seed: int | None

    @classmethod
    def of(
        cls, trials: list[Trial], sources: list[Any], bounds_from: str = "declared", *,
        names: Sequence[str] | None = None, gamma: float | None = None, seed: int | None = None,
    ) -> TransferRun:  # fmt: skip
        """The trials together."""
        sums = [trial.undiscounted for trial in trials if trial.undiscounted is not None]
        return cls(
            returns=np.stack([trial.returns for trial in trials]),
            arms=np.stack([trial.arms for trial in trials]),
            eliminated_at=np.stack([_eliminations(trial, len(sources)) for trial in trials]),
            clipped=np.array([trial.selector.n_clipped for trial in trials]),
            widened=np.array([trial.widened for trial in trials]),
            advice=[advise(trial, len(sources)) for trial in trials],
            selectors=[getattr(trial.selector, "original", trial.selector) for trial in trials],
            learners=[trial.learner for trial in trials],
            sources=sources,
            bounds=[trial.bounds for trial in trials],
            bounds_from=bounds_from,
            arm_names=[*(numbered(len(sources)) if names is None else names), LEARNER],
            gamma=gamma,
            undiscounted=np.stack(sums) if len(sums) == len(trials) else None,
            seed=seed,
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
    def best_source(self) -> int | None:
        """The source with the largest lower confidence bound on its mean return over all trials; None if none ran."""
        if any(adapted(selector).mixes for selector in self.selectors) or not (self.arms < self.n_sources).any():
            return None
        own = [self.returns[self.arms == arm] for arm in range(self.n_sources)]
        return int(lower_bounds(own, float(np.ptp(self.returns))).argmax())

    @property
    def policy(self) -> Any:
        """What the learner hands out in the best trial: greedy actions [S], or a function of the observation.

        It is the snapshot, of those taken after every tenth of T own episodes, around which it did best; its last
        policy where there is none.
        """
        return self.advice[self.best_trial].policy

    @property
    def recommended(self) -> LongArray:
        """The arm to keep, of each trial [trials].

        It is the learner where the lower end of what it was worth, in its own episodes before and after the snapshot
        it hands out, is above the mean return of the best source; otherwise that source: the one with the largest
        lower confidence bound.
        """
        return np.array([advice.arm for advice in self.advice])

    @property
    def recommended_policy(self) -> Any:
        """The policy of the recommended arm in the best trial."""
        arm = int(self.recommended[self.best_trial])
        return self.policy if arm == self.n_sources else self.sources[arm]

    @property
    def why(self) -> str:
        """Why that arm is recommended in the best trial; "" where there was no choice."""
        return self.advice[self.best_trial].why([one_line(name) for name in self.arm_names])

    def shares(self, window: int | None = None) -> FloatArray:
        """Return how often each arm ran, as a share of the episodes of all trials [windows, c + 1]; see ``curve``."""
        counts = windows(self.returns.shape[1], window, "TransferRun.shares").counts(self.arms, self.n_sources + 1)
        shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
        return shares

    def curve(self, window: int | None = None) -> Curve:
        """Return the mean return of each window of episodes, with 95% intervals over trials.

        ``window`` is the number of episodes in a window; by default there are about 100 windows. The result has
        ``episode`` (the middles of the windows), ``mean``, ``low`` and ``high``, each [windows].
        """
        cut = windows(self.returns.shape[1], window, "TransferRun.curve")
        return Curve(cut.middles, *interval(cut.means(self.returns)))

    def plot(self, optimum: float | None = None) -> Figure:
        """Draw the returns and, below them, who ran the episodes; ``optimum`` as for `plot_curves`.

        Up to 200 episodes are points, in the colour of the arm that ran them; more are a learning curve. A dashed line
        is the mean return of the best source.
        """
        optimum = _checked_optimum("TransferRun.plot", optimum)
        figure, (above, below) = figures.new_figure(9, 7, nrows=2, sharex=True)
        draw_run(above, below, self, optimum)
        return figure

    def to_frame(self) -> pd.DataFrame:
        """The episodes as a pandas DataFrame, a row to each: trial, episode, arm, its name, return, undiscounted."""
        trial, episode = np.indices(self.arms.shape)
        names = [self.arm_names[arm] for arm in self.arms.ravel()]
        columns = {"trial": trial.ravel(), "episode": episode.ravel(), "arm": self.arms.ravel(), "name": names}
        columns["return"] = self.returns.ravel()
        if self.undiscounted is not None:
            columns["undiscounted"] = self.undiscounted.ravel()
        return frame(columns)

    def _repr_html_(self) -> str:
        return html_table(self._table(), str(self))

    def _table(self) -> list[dict[str, Any]]:
        """What each arm did, over all trials."""
        rows = []
        for arm, name in enumerate(self.arm_names):
            ran = self.arms == arm
            row = {"arm": arm, "name": name, "episodes": int(ran.sum())}
            row |= {"mean return": float(self.returns[ran].mean()) if ran.any() else None}
            if self.undiscounted is not None:
                row |= {"undiscounted": float(self.undiscounted[ran].mean()) if ran.any() else None}
            dropped = int((self.eliminated_at[:, arm] >= 0).sum()) if arm < self.n_sources else None
            rows.append(row | {"dropped in trials": dropped})
        return rows

    def __str__(self) -> str:
        trials, episodes = self.returns.shape
        mean, low, high = interval(self.total[:, None] / episodes)
        spread = f" (95%: {low[0]:.4g} .. {high[0]:.4g})" if trials > 1 else ""
        if self.undiscounted is not None:
            spread += f", undiscounted {self.undiscounted.mean():.4g} (gamma {self.gamma:g})"
        odd = f", {int(self.clipped.sum())} returns clipped" if self.clipped.any() else ""
        odd += f", bounds widened {counted(int(self.widened.sum()), 'time')}" if self.widened.any() else ""
        if self.bounds_from != "declared" and (bounds := self.bounds[self.best_trial]) is not None:
            origin = "of the task" if self.bounds_from == "task" else "running"
            odd += f", bounds {origin}: {bounds.lower:.4g} .. {bounds.upper:.4g}"
        why = f" ({self.why})" if self.why else ""
        return (
            f"TransferRun({self._size}: mean return {mean[0]:.4g}{spread}, "
            f"{100 * (self.arms == self.n_sources).mean():.0f}% by the learner, keep {self._keep}{why}{odd})"
        )

    def __repr__(self) -> str:
        told = f"TransferRun({self._size}, mean return {self.returns.mean():.4g}, keep "
        return f"{told}{one_line(self._keep, WIDEST - len(told) - 1)})"

    @property
    def _size(self) -> str:
        trials, episodes = self.returns.shape
        return f"{trials} x {episodes:,} episodes, {self.n_sources} source{'s' * (self.n_sources != 1)}"

    @property
    def _keep(self) -> str:
        arm = int(self.recommended[self.best_trial])
        return "the learner" if arm == self.n_sources else one_line(self.arm_names[arm])


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
    >>> from pastmaster import TabularMDP, plot_curves, transfer
    >>> task = TabularMDP([[0, 0]], [[0.0, 1.0]], terminated=[[True, True]], gamma=0.9)
    >>> run = transfer(task, [], episodes=50, rng=0)
    >>> figure = plot_curves({"Q-learning alone": run}, optimum=1.0)
    """
    if not isinstance(runs, Mapping) or not all(isinstance(run, TransferRun) for run in runs.values()):
        raise InvalidInputError(f"plot_curves: runs is {shown(runs)}, must be a dict of names and runs")
    if not runs:
        raise InvalidInputError("plot_curves: runs is empty, must hold at least one TransferRun")
    optimum = _checked_optimum("plot_curves", optimum)
    figure, axes = figures.new_figure(8, 4.8)
    draw_curves(axes, runs, optimum)
    return figure


def _checked_optimum(caller: str, optimum: Any) -> float | None:
    if optimum is not None and not (is_number(optimum) and is_finite(optimum)):
        raise InvalidInputError(f"{caller}: optimum is {shown(optimum)}, must be a finite number or None")
    return None if optimum is None else float(optimum)


def _eliminations(trial: Trial, n_sources: int) -> LongArray:
    known = trial.selector.eliminated_at
    dropped = np.full(n_sources, -1) if known is None else np.asarray(known, np.int64)
    return np.where(dropped >= 0, dropped + trial.begun, -1)
