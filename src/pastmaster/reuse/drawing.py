"""The pictures of runs: returns over episodes, and who ran the episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pastmaster import figures
from pastmaster.reuse.windows import windows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pastmaster.reuse.run import TransferRun

FEW = 200  # episodes: up to so many, each is a point of its own
MOST_SHOWN = 8  # sources with a colour of their own
LEARNER, OTHERS, MEAN = "0.35", "0.8", "black"
Legend = list[tuple[list[int], str, str]]
"""The arms that are drawn alike, their label and their colour."""


def draw_curves(axes: Axes, runs: Mapping[str, TransferRun], optimum: float | None = None) -> None:
    """Learning curves with their intervals, on given axes."""
    for i, (label, run) in enumerate(runs.items()):
        curve, style = run.curve(), figures.line_style(i)
        axes.plot(curve.episode, curve.mean, label=figures.label(str(label)), **style)
        axes.fill_between(curve.episode, curve.low, curve.high, color=style["color"], alpha=0.2, linewidth=0)
    if optimum is not None:
        axes.axhline(optimum, color="black", linestyle=":", linewidth=1.2, label="optimal policy")
    trials = {len(run.returns) for run in runs.values()}
    many = f"{trials.copy().pop()} trials" if len(trials) == 1 else "trials"
    band = f", 95% intervals over {many}" if max(trials) > 1 else ""
    axes.set(xlabel="episode", ylabel="mean return per episode", title="Learning curve" + band)
    axes.legend(loc="best", fontsize="small")
    axes.grid(alpha=0.3)


def draw_run(above: Axes, below: Axes, run: TransferRun, optimum: float | None) -> None:
    """Returns above, and below who ran the episodes."""
    legend = _legend(run)
    if run.returns.shape[1] <= FEW:
        _draw_points(above, run, legend)
    else:
        draw_curves(above, {"mean return": run})
        above.lines[0].set_color(MEAN)  # no colour of an arm
        above.collections[0].set_color(MEAN)
    best = run.best_source
    if best is not None:
        mean = float(run.returns[run.arms == best].mean())
        (colour,) = (colour for arms, _, colour in legend if best in arms)
        label = f"best source, {_labels(run)[best]}: its mean"
        above.axhline(mean, color=colour, linestyle="--", linewidth=1.2, label=label)
    if optimum is not None:
        above.axhline(optimum, color="black", linestyle=":", linewidth=1.2, label="optimal policy")
    above.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    above.set_xlabel("")
    _draw_shares(below, run, legend)


def _draw_points(axes: Axes, run: TransferRun, legend: Legend) -> None:
    """Every return as a point in the colour of its arm."""
    episode = np.broadcast_to(np.arange(run.arms.shape[1]), run.arms.shape)
    for arms, label, colour in legend:
        ran = np.isin(run.arms, arms)
        if ran.any():
            size = 18 if run.arms.size <= FEW else 8
            axes.scatter(episode[ran] + 0.5, run.returns[ran], s=size, color=colour, alpha=0.8, label=label)
    trials = f" in {len(run.returns)} trials" if len(run.returns) > 1 else ""
    discount = "" if run.gamma is None else f", discounted by {run.gamma:g}"
    axes.set(ylabel=f"return of an episode{discount}", title=f"Every episode{trials}, by who ran it")
    axes.grid(alpha=0.3)


def _draw_shares(axes: Axes, run: TransferRun, legend: Legend) -> None:
    """Stacked shares, constant over each window: the learner first, then the sources most used."""
    shares, ends = run.shares(), np.array(windows(run.returns.shape[1]).edges).ravel()
    rows = [np.repeat(shares[:, arms].sum(axis=1), 2) for arms, _, _ in legend]
    _, labels, colours = zip(*legend, strict=True)
    axes.stackplot(ends, rows, labels=labels, colors=colours)
    dropped = run.eliminated_at[run.eliminated_at >= 0]
    if len(dropped):
        label = "a source is dropped in a trial"
        axes.plot(dropped, np.full(len(dropped), 1.02), "kv", markersize=4, clip_on=False, label=label)
    axes.set(xlabel="episode", ylabel="share of episodes", ylim=(0, 1.05), title="Who ran the episodes")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")


def _legend(run: TransferRun) -> Legend:
    """The learner, the sources most used, which have a colour of their own, and all others, which share one."""
    used, labels = np.bincount(run.arms.ravel(), minlength=run.n_sources + 1), _labels(run)
    most = np.argsort(-used[:-1], kind="stable")[:MOST_SHOWN].tolist()
    shown = [i for i in most if used[i] >= 0.005 * run.arms.size]
    legend = [([run.n_sources], labels[run.n_sources], LEARNER)]
    legend += [([i], labels[i], str(figures.line_style(place)["color"])) for place, i in enumerate(shown)]
    others = [i for i in range(run.n_sources) if i not in shown]
    if others:
        what = labels[others[0]] if len(others) == 1 else f"the other {len(others)} sources"
        legend.append((others, what, OTHERS))
    return legend


def _labels(run: TransferRun) -> list[str]:
    """What the arms are called: of the sources what tells them apart."""
    *sources, learner = run.arm_names
    return [*figures.labels(sources), figures.label(learner)]
