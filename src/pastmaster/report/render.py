"""A page as one HTML file: text escaped, charts as inert data, style and scripts inside; nothing is ever fetched.

``page.html.jinja`` is the file's frame. Every text in it is escaped on its way in. The Content-Security-Policy allows
the scripts by their hashes alone and forbids the network, so that nothing that came with the data could run or call
out, even if an escape were forgotten.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import math
import re
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.errors import InvalidInputError
from pastmaster.figures import COLOURS, DASHES
from pastmaster.report.page import Gallery, Page, Trend
from pastmaster.report.payload import payload
from pastmaster.texts import printable

NO_SCRIPT = "The figures need JavaScript, all of which is in this file. The texts and tables are complete without it."
HOW = "Point at a figure to read it, drag to enlarge, double-click to go back. A name under a figure hides its line."
DASH_LENGTHS = {"-": (), "--": (7, 4), "-.": (10, 3, 2, 3)}
WIDTH, HEIGHT = 420, 232  # of a trend
LEFT, RIGHT, TOP, BOTTOM = 46, 410, 10, 194  # edges of what is drawn in it
MOST_MARKS = 60  # points that are marked and named one by one


def render(page: Page) -> str:
    """The whole file."""
    jinja2 = needed("jinja2")
    plain = needed("markupsafe").Markup
    environment = jinja2.Environment(autoescape=True, finalize=_shown, trim_blocks=True, lstrip_blocks=True)

    def safe(function: Any) -> Any:
        return lambda *arguments: plain(function(*arguments))

    template = environment.from_string(_asset("page.html.jinja"))
    text: str = template.render(
        page=page,
        galleries=[part for section in page.sections for part in section.parts if isinstance(part, Gallery)],
        payloads=lambda gallery: [payload(chart) for chart in gallery.charts],
        kind=lambda part: type(part).__name__,
        drawn=drawn_trend,
        text=_text,
        data=safe(_data),
        hash=safe(_hash),
        base64=lambda content: base64.b64encode(content).decode(),
        plotly=plain(_script(plotly_script())),
        script=plain(_script(_asset("page.js"))),
        style=plain(_asset("page.css")),
        look={"colours": COLOURS, "dashes": [_dash(dash) for dash in DASHES]},
        how=HOW,
        no_script=NO_SCRIPT,
    )
    return text


def _shown(value: Any) -> Any:
    """Text that a person wrote, with escapes for what would not be seen as itself."""
    return printable(value, keep="\n\t") if type(value) is str else value


def _text(text: str) -> str:
    """Text as HTML, in elements and in quoted attributes."""
    return escape(printable(text, keep="\n\t"))


def drawn_trend(trend: Trend) -> dict[str, Any]:
    """Where the lines, marks and ticks of a trend are, in SVG's units; it is drawn without a script, and on paper."""
    from matplotlib.ticker import MaxNLocator

    values, reference = np.asarray(trend.values, np.float64), np.asarray(trend.reference, np.float64)
    known = np.concatenate([values, reference])
    known = known[np.isfinite(known)]
    low, high = min(0.0, float(known.min())), max(0.0, float(known.max()))
    ticks = list(MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high if high > low else 1.0))
    x = (LEFT + (RIGHT - LEFT) * (np.arange(len(values)) + 0.5) / len(values)).round(1)

    def height(value: Any) -> Any:
        return np.round(TOP + (BOTTOM - TOP) * (ticks[-1] - value) / (ticks[-1] - ticks[0]), 1)

    def points(line: FloatArray) -> str:
        return " ".join(f"{a},{b}" for a, b in zip(x, height(line), strict=True) if math.isfinite(b))

    marked = zip(x, height(values), trend.names, values, strict=True)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": RIGHT,
        "ticks": [(tick, height(tick)) for tick in ticks],
        "ends": [(1, x[0]), (len(x), x[-1])][: len(x)],
        "series": points(values),
        "reference": points(reference),
        "marks": [(a, b, f"{name}: {value:.4g}") for a, b, name, value in marked] if len(x) <= MOST_MARKS else [],
    }


def _data(name: str, content: Any) -> str:
    """JSON that no parser of HTML can leave: neither ``</script`` nor ``<!--`` can be in it."""
    text = json.dumps(_printable(content), separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _printable(content: Any) -> Any:
    """Plain data with every text in it as a page shows it."""
    if isinstance(content, dict):
        return {key: _printable(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_printable(value) for value in content]
    return _shown(content)


def _script(source: str) -> str:
    """A script that no element can end but its own."""
    return re.sub("</(script)", r"<\\/\1", source.replace("\r\n", "\n"), flags=re.IGNORECASE)


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return resources.files("pastmaster.report").joinpath(name).read_text("utf-8")


def _dash(dash: Any) -> list[int]:
    """Lengths of strokes and gaps in pixels; none for a solid line."""
    return list(DASH_LENGTHS[dash]) if isinstance(dash, str) else [2 * length for length in dash[1]]


def needed(package: str) -> Any:
    """A package that only reports need."""
    try:
        return importlib.import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        raise InvalidInputError(f"a report needs {name}, which is not installed: pip install {name}") from None


def plotly_script() -> str:
    """Plotly's own script."""
    return str(needed("plotly.offline").get_plotlyjs())
