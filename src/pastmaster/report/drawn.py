"""Figures of a page's first screen, drawn as HTML and SVG: they are there at once, on paper, and without a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.report.page import Bars, Trend

WIDTH, HEIGHT = 420, 232
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 38  # margins
MOST_MARKS = 60  # points that are marked and named one by one
Text = Callable[[str], str]
"""Text as HTML."""


def bars_html(bars: Bars, text: Text) -> str:
    """A row to each bar: name, bar, number."""
    rows = "".join(
        f'<tr><th scope="row">{text(bar.name)}<span class="minor">{text(bar.note)}</span></th>'
        f'<td class="bar"><span style="width:{100 * min(max(bar.share, 0.0), 1.0):.1f}%"></span></td>'
        f'<td class="number">{text(bar.value)}</td></tr>'
        for bar in bars.bars
    )
    table = f'<table class="bars"><caption>{text(bars.note)}</caption><tbody>{rows}</tbody></table>' if rows else ""
    more = f'<p class="minor">{text(bars.more)}</p>' if bars.more else ""
    return f'<div class="panel"><h2>{text(bars.heading)}</h2>{table}{more}</div>'


def trend_html(trend: Trend, text: Text) -> str:
    """Two lines over the tasks of a stream, the first with a mark to each task."""
    drawn = "".join(_svg(trend, text))
    legend = "".join(
        f'<li><svg width="26" height="10" aria-hidden="true"><line class="{kind}" x1="0" x2="26" y1="5" y2="5"/></svg>'
        f"{text(label)}</li>"
        for label, kind in ((trend.label, "series"), (trend.reference_label, "reference"))
    )
    return (
        f'<div class="panel"><h2>{text(trend.heading)}</h2><figure class="trend">'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(trend.note)}">{drawn}</svg>'
        f'<ul class="legend">{legend}</ul><figcaption>{text(trend.note)}</figcaption></figure></div>'
    )


def _svg(trend: Trend, text: Text) -> Iterator[str]:
    values, reference = np.asarray(trend.values, np.float64), np.asarray(trend.reference, np.float64)
    known = np.concatenate([values, reference])
    known = known[np.isfinite(known)]
    ticks = nice_ticks(min(0.0, float(known.min())), max(0.0, float(known.max())))
    low, high = ticks[0], ticks[-1]
    inner, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    x = LEFT + inner * (np.arange(len(values)) + 0.5) / len(values)

    def at(value: FloatArray) -> FloatArray:
        heights: FloatArray = TOP + tall * (high - value) / (high - low)
        return heights

    for tick in ticks:
        y = float(at(np.float64(tick)))  # type: ignore[arg-type]
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
    yield f'<text class="tick" x="{x[0]:.1f}" y="{HEIGHT - 22}" text-anchor="middle">1</text>'
    if len(x) > 1:
        yield f'<text class="tick" x="{x[-1]:.1f}" y="{HEIGHT - 22}" text-anchor="middle">{len(x)}</text>'
    yield f'<text class="tick" x="{LEFT + inner / 2}" y="{HEIGHT - 6}" text-anchor="middle">{text(trend.axis)}</text>'
    yield f'<polyline class="reference" points="{_points(x, at(reference))}"/>'
    yield f'<polyline class="series" points="{_points(x, at(values))}"/>'
    if len(x) <= MOST_MARKS:
        for name, place, height, value in zip(trend.names, x, at(values), values, strict=True):
            told = text(f"{name}: {value:.4g}")
            yield f'<circle class="mark" cx="{place:.1f}" cy="{height:.1f}" r="3"><title>{told}</title></circle>'


def _points(x: FloatArray, y: FloatArray) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if math.isfinite(b))


def nice_ticks(low: float, high: float, n: int = 4) -> Sequence[float]:
    """About ``n`` round numbers, from at most ``low`` to at least ``high``."""
    reach = high - low if high > low else abs(high) or 1.0
    unit = 10.0 ** math.floor(math.log10(reach / n))
    step = next(unit * m for m in (1, 2, 5, 10) if reach / (unit * m) <= n)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]
