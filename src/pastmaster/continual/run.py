"""The result of a lifelong agent's stream: the returns of every task, and their curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pastmaster import figures
from pastmaster.arrays import FloatArray
from pastmaster.errors import InvalidInputError
from pastmaster.repository import StoredRun
from pastmaster.tables import frame, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMES, LONGEST_NAME = 40, 24  # of tasks that an axis names, and letters of each


@dataclass(frozen=True, eq=False, repr=False)
class ContinualRun:
    """K tasks of T episodes each, in the order they were met.

    Attributes
    ----------
    names, returns : list of str [K], array [K, T]
        The tasks' names, and the discounted return of every episode.
    total, mean_returns : float, array [K]
        The sum of all returns, and the mean in each task.
    values : array [K]
        The value of each task's policy of record at the end, nan if the task was removed since.
    n_sources, evaluation_episodes : array [K]
        How many source policies each task was met with, and the episodes spent to value policies without a model.
    reclustered : list of int
        After how many tasks the repository was clustered.
    seed : int or None
        The seed of the agent; None where it was given a generator.
    """

    names: list[str]
    returns: FloatArray
    values: FloatArray
    n_sources: npt.NDArray[np.int64]
    evaluation_episodes: npt.NDArray[np.int64]
    reclustered: list[int]
    seed: int | None = None

    @classmethod
    def of(cls, runs: list[StoredRun], episodes: int, reclustered: list[int], seed: int | None = None) -> ContinualRun:
        """From the runs of a stream."""
        return cls(
            [run.name for run in runs],
            np.array([run.returns for run in runs]).reshape(-1, episodes),
            np.array([run.value_now for run in runs]),
            np.array([run.n_sources for run in runs], np.int64),
            np.array([run.evaluation_episodes for run in runs], np.int64),
            reclustered,
            seed,
        )

    @property
    def total(self) -> float:
        """The sum of all returns."""
        return float(self.returns.sum())

    @property
    def mean_returns(self) -> FloatArray:
        """The mean return in each task [K]."""
        means: FloatArray = self.returns.mean(axis=1)
        return means

    def __repr__(self) -> str:
        tasks, episodes = self.returns.shape
        mean = f": mean return {self.returns.mean():.4g}" if tasks else ""
        return f"ContinualRun({tasks} tasks x {episodes:,} episodes{mean})"

    def __str__(self) -> str:
        """The run in a sentence: the second number is always what the best stored policies earn."""
        if not self.names:
            return repr(self)
        tenth = max(1, len(self.names) // 10)
        at_end = f"{self.mean_returns[-tenth:].mean():.4g} of {_known_mean(self.values[-tenth:]):.4g}"
        spent = int(self.evaluation_episodes.sum())
        more = f", {spent:,} more episodes to value policies" if spent else ""
        more += "" if self.n_sources.any() else ", no policy was reused"
        return (
            f"{repr(self)[:-1]} where the best stored policies earn {_known_mean(self.values):.4g}; "
            f"in the last tenth of the tasks {at_end}{more})"
        )

    def to_frame(self) -> pd.DataFrame:
        """The tasks as a pandas DataFrame, a row to each, in the order they were met."""
        columns = {
            "position": range(len(self.names)),
            "task": self.names,
            "mean_return": self.mean_returns.tolist(),
            "value": self.values.tolist(),
            "n_sources": self.n_sources.tolist(),
            "evaluation_episodes": self.evaluation_episodes.tolist(),
        }
        return frame(dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    def plot(self) -> Figure:
        """The mean return over tasks. Save it by ``.savefig(path)``."""
        return plot_streams({"this agent": self})


def plot_streams(runs: Mapping[str, ContinualRun]) -> Figure:
    """Draw several agents on one stream: mean return over tasks, and all returns so far.

    Parameters
    ----------
    runs : mapping of str to ContinualRun
        The runs by the name of the agent, each of at least one task.

    Returns
    -------
    matplotlib.figure.Figure
        Grey lines mark clusterings; a third panel shows the episodes spent to value policies, where there are any.

    Examples
    --------
    >>> import numpy as np
    >>> from pastmaster import ContinualRun, plot_streams
    >>> run = ContinualRun(["a"], np.array([[1.0, 3.0]]), np.array([4.0]), np.array([2]), np.array([0]), [])
    >>> [panel.get_ylabel() for panel in plot_streams({"this agent": run}).axes]
    ['mean return of an episode', 'reward so far']
    """
    if not isinstance(runs, Mapping) or not all(isinstance(run, ContinualRun) for run in runs.values()):
        got = shown(runs)
        raise InvalidInputError(f"plot_streams: runs is {got}, must be a dict of ContinualRun by the agents' names")
    if not runs or any(not len(run.names) for run in runs.values()):
        raise InvalidInputError("plot_streams: runs must hold at least one ContinualRun, each of at least one task")
    evaluated = any(run.evaluation_episodes.any() for run in runs.values())
    figure, axes = figures.new_figure(9, 10 if evaluated else 7.5, nrows=3 if evaluated else 2, sharex=True)
    longest = max(runs.values(), key=lambda run: (len(run.names), len(run.reclustered)))
    window = max(1, len(longest.names) // 10)
    _draw(axes[0], {name: _smooth(run.mean_returns, window) for name, run in runs.items()})
    dotted: dict[str, Any] = {"color": "black", "linestyle": ":", "linewidth": 1.2, "label": "best stored policies"}
    axes[0].plot(np.arange(1, len(longest.names) + 1), _smooth(longest.values, window), **dotted)
    axes[0].set(ylabel="mean return of an episode", title=f"Return over tasks, mean of the last {window}")
    _draw(axes[1], {name: np.cumsum(run.returns.sum(axis=1)) for name, run in runs.items()})
    axes[1].set(ylabel="reward so far", title="All returns so far")
    if evaluated:
        spent = {name: run.evaluation_episodes for name, run in runs.items()}
        _draw(axes[2], {name: np.cumsum(own) if own.any() else np.empty(0) for name, own in spent.items()})
        axes[2].set(ylabel="episodes", title="Episodes spent to value policies, where there is no model")
    for position in longest.reclustered:
        for panel in axes:
            panel.axvline(position, color="0.8", linewidth=0.8, zorder=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    axes[-1].set_xlabel("tasks met" + (" (grey lines: clustered anew)" if longest.reclustered else ""))
    if len(longest.names) <= MOST_NAMES and all(longest.names):
        named = figures.labels(longest.names, LONGEST_NAME)
        axes[-1].set_xticks(np.arange(1, len(named) + 1), named, rotation=90, fontsize=8)
    return figure


def _draw(axes: Axes, curves: Mapping[str, FloatArray]) -> None:
    for i, (label, values) in enumerate(curves.items()):
        axes.plot(np.arange(1, len(values) + 1), values, label=figures.label(str(label)), **figures.line_style(i))
    axes.yaxis.set_major_formatter(lambda tick, _: f"{tick:,.10g}")
    axes.grid(alpha=0.3, axis="y")


def _smooth(values: FloatArray, window: int) -> FloatArray:
    """The mean of each value and those before it, at most ``window`` of them, without those that are nan."""
    known, ones = ~np.isnan(values), np.ones(window)
    sums, counts = (np.convolve(terms, ones)[: len(values)] for terms in (np.where(known, values, 0.0), known))
    smooth: FloatArray = np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0)
    return smooth


def _known_mean(values: FloatArray) -> float:
    """The mean of the values there are, nan if there is none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
