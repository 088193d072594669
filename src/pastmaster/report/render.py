"""A page as one HTML file: text escaped, charts as inert data, style and scripts inside; nothing is ever fetched.

The Content-Security-Policy allows the scripts by their hashes alone and forbids the network, so that nothing that came
with the data could run or call out, even if an escape were forgotten.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html import escape
from importlib import resources
from itertools import count
from typing import Any

from pastmaster.errors import InvalidInputError
from pastmaster.figures import COLOURS, DASHES
from pastmaster.report.drawn import bars_html, trend_html
from pastmaster.report.page import Bars, Gallery, Page, Picture, Prose, Table
from pastmaster.report.payload import payload
from pastmaster.texts import printable

NO_SCRIPT = "The figures need JavaScript, all of which is in this file. The texts and tables are complete without it."
HOW = "Point at a figure to read it, drag to enlarge, double-click to go back. A name under a figure hides its line."
DASH_LENGTHS = {"-": (), "--": (7, 4), "-.": (10, 3, 2, 3)}


def render(page: Page) -> str:
    """The whole file."""
    plotly, script = _script(plotly_script()), _script(_asset("page.js"))
    policy = (
        f"default-src 'none'; script-src {_hash(plotly)} {_hash(script)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    has_charts = any(isinstance(part, Gallery) for section in page.sections for part in section.parts)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="generator" content="pastmaster">',
            f"<title>{_text(page.title)}</title>",
            f"<style>\n{_asset('page.css')}{page.style}</style>",
            "</head>",
            "<body>",
            *_header(page, has_charts),
            *_main(page),
            f"<footer><p>Made by <code>{_text(page.maker)}</code>.</p></footer>",
            _data("look", {"colours": COLOURS, "dashes": [_dash(dash) for dash in DASHES]}),
            *([f"<script>{plotly}</script>"] if has_charts else []),
            f"<script>{script}</script>",
            "</body>",
            "</html>\n",
        ]
    )


def _header(page: Page, has_charts: bool) -> list[str]:
    facts = (f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in page.facts)
    links = (f'<li><a href="#section-{i}">{_text(s.heading)}</a></li>' for i, s in enumerate(page.sections))
    no_script = f'<noscript><p class="aside">{NO_SCRIPT}</p></noscript>'
    return [
        "<header>",
        f"<h1>{_text(page.title)}</h1>",
        *([f'<p class="made">{_text(page.made)}</p>'] if page.made else []),
        f'<p class="lead">{_text(page.lead)}</p>',
        f'<dl class="facts">{"".join(facts)}</dl>',
        *_overview(page),
        *map(_prose, page.notes),
        f'<nav aria-label="Sections"><ul>{"".join(links)}</ul></nav>',
        *([no_script] if has_charts else []),
        "</header>",
    ]


def _overview(page: Page) -> Iterator[str]:
    """The figures of the first screen, side by side."""
    if page.overview:
        yield '<div class="overview">'
        yield from (bars_html(p, _text) if isinstance(p, Bars) else trend_html(p, _text) for p in page.overview)
        yield "</div>"


def _main(page: Page) -> Iterator[str]:
    """The sections, galleries numbered through."""
    numbers = count()
    yield "<main>"
    for i, section in enumerate(page.sections):
        yield f'<section aria-labelledby="section-{i}">'
        yield f'<h2 id="section-{i}">{_text(section.heading)}</h2>'
        for part in section.parts:
            if isinstance(part, Gallery):
                yield from _gallery(next(numbers), part)
            elif isinstance(part, Picture):
                yield _picture(part)
            elif isinstance(part, Prose):
                yield _prose(part)
            elif isinstance(part, Table):
                yield _table(part)
            else:
                yield from part.html(_text)
        yield "</section>"
    yield "</main>"


def _gallery(i: int, gallery: Gallery) -> list[str]:
    """A place for a chart, a choice where there are several, and their data."""
    charts = [payload(chart) for chart in gallery.charts]
    options = "".join(f'<option value="{j}">{_text(chart["title"])}</option>' for j, chart in enumerate(charts))
    choice = (
        f'<p class="choice"><label for="choice-{i}">Show one of {len(charts)}</label>'
        f'<select id="choice-{i}" autocomplete="off">{options}</select></p>'
    )
    first = charts[0]
    return [
        f'<div class="gallery" data-source="figures-{i}">',
        f"<h3>{_text(gallery.heading)}</h3>",
        f"<p>{_text(gallery.note)}</p>",
        *([f'<p class="how">{HOW}</p>'] if i == 0 else []),
        *([choice] if len(charts) > 1 else []),
        f'<figure class="{first["kind"]}">',
        f'<div class="plot" role="img" aria-labelledby="caption-{i}"></div>',
        '<ul class="legend"></ul>',
        f'<figcaption id="caption-{i}"><strong>{_text(first["title"])}</strong> '
        f"<span>{_text(first['summary'])}</span></figcaption>",
        "</figure>",
        _data(f"figures-{i}", charts),
        "</div>",
    ]


def _table(table: Table) -> str:
    """A table that scrolls inside its box where the screen is too narrow."""
    right = [' class="number"' if i in table.numeric else "" for i in range(len(table.head))]
    head = "".join(f'<th scope="col"{kind}>{_text(name)}</th>' for name, kind in zip(table.head, right, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{_text(cell)}</td>" for cell, kind in zip(row, right, strict=True)) + "</tr>\n"
        for row in table.rows
    )
    return (
        f'<div class="box" role="region" tabindex="0" aria-label="{_text(table.caption)}"><table>'
        f"<caption>{_text(table.caption)}</caption><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
    )


def _picture(picture: Picture) -> str:
    source, caption = base64.b64encode(picture.png).decode(), _text(picture.caption)
    return (
        f'<figure class="picture"><img src="data:image/png;base64,{source}" alt="{caption}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _prose(prose: Prose) -> str:
    return f'<p class="aside">{_text(prose.text)}</p>' if prose.aside else f"<p>{_text(prose.text)}</p>"


def _text(text: str) -> str:
    """Text as HTML, in elements and in quoted attributes."""
    return escape(printable(text, keep="\n\t"))


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
        return [_printable(value) for value in content] if any(map(_holds_text, content)) else content
    return printable(content, keep="\n\t") if isinstance(content, str) else content


def _holds_text(value: Any) -> bool:
    return isinstance(value, str | list | tuple | dict)


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


def plotly_script() -> str:
    """Plotly's own script."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InvalidInputError("a report needs plotly, which is not installed: pip install plotly") from None
    return str(get_plotlyjs())
