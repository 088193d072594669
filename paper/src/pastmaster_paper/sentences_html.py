"""The sentences of a reproduction as HTML: a row to each, the readings side by side, a small plot to each verdict.

Plots are drawn as SVG: they are there at once, on paper, and without a script.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from pastmaster_paper.experiments import Reproduction
from pastmaster_paper.experiments.folder import Told
from pastmaster_paper.experiments.pooled import CONTRARY, HOLDS, IN_PART, NOT_JUDGED
from pastmaster_paper.experiments.sentences import Case, Judged

WIDTH, ROW, MARGIN = 150, 9, 5  # of a small plot, in pixels
MOST_ROWS = 12  # cases drawn
CLASSES = {HOLDS: "held", IN_PART: "partly", CONTRARY: "failed"}
MARKS = {HOLDS: "&#10003;", IN_PART: "&#9681;", CONTRARY: "&#10007;"}
NONE = "There are no sentences in this folder."
CAPTION = "What the paper says, and what became of it under each reading"
Text = Callable[[str], str]
"""Text as HTML."""


def sentences_html(found: Reproduction, text: Text) -> Iterator[str]:
    """The table, or a remark where there are no sentences."""
    if not found.sentences:
        yield f'<p class="aside">{text(NONE)}</p>'
        return
    heads = ["what the paper says", *found.readings]
    names = "".join(f'<th scope="col" role="columnheader">{text(name)}</th>' for name in heads)
    # Roles are explicit because a narrow screen lays the rows out as blocks, and some browsers then forget the table.
    yield f'<table class="sentences" role="table"><caption>{CAPTION}</caption>'
    yield f'<thead role="rowgroup"><tr role="row">{names}</tr></thead>'
    by_reading = {reading: found.under(reading) for reading in found.readings}
    for told in found.sentences:
        yield from _rows(told, {reading: by_reading[reading].get(told.id) for reading in found.readings}, found, text)
    yield "</table>"


def _rows(told: Told, judged: dict[str, Judged | None], found: Reproduction, text: Text) -> Iterator[str]:
    """A sentence and its verdicts; below it all figures."""
    said = f'<span class="minor">{told.id}</span> {text(told.words)} <span class="minor">line {text(told.lines)}</span>'
    common = [one for one in judged.values() if one is not None and one.reading == ""]
    if common:
        cells = (
            f'<td role="cell" colspan="{len(judged)}" class="{_class(common[0])}">{_verdict(common[0], "", text)}</td>'
        )
    else:
        cells = "".join(
            f'<td role="cell" class="{_class(one)}">{_verdict(one, reading, text)}</td>'
            for reading, one in judged.items()
        )
    yield f'<tbody role="rowgroup"><tr role="row"><th scope="row" role="rowheader">{said}</th>{cells}</tr>'
    shown = common[:1] or [one for one in judged.values() if one is not None]
    table = _figures(shown, len(found.seeds), text)
    below = f"<details><summary>Figures</summary>{table}</details>"
    yield f'<tr role="row" class="below"><td role="cell" colspan="{len(judged) + 1}">{below}</td></tr></tbody>'


def _class(one: Judged | None) -> str:
    return "minor" if one is None else CLASSES.get(one.verdict, "minor")


def _verdict(one: Judged | None, reading: str, text: Text) -> str:
    """The verdict in words, its first figure, and the small plot."""
    if one is None:
        return "not measured"
    cases, held = one.judged(), one.held()
    mark = f'<span class="mark" aria-hidden="true">{MARKS[one.verdict]}</span> ' if one.verdict in MARKS else ""
    few = ' <span class="quick">too few draws</span>' if one.verdict == NOT_JUDGED else ""
    which = ""
    if one.verdict == IN_PART:
        contrary = f", {len(one.failed())} contrary" if one.failed() else ""
        which = f" ({len(held)} of {len(cases)}{contrary})"
    first = (
        f'<span class="minor">{text(cases[0].name)}: {_told(cases[0])} {text(cases[0].unit)}</span>' if cases else ""
    )
    named = f'<span class="reading">{text(reading)}: </span>' if reading else ""
    return f"{named}{mark}{one.verdict}{which}{few}{plot(cases, f'{reading} {one.verdict}'.strip(), text)}{first}"


def _told(case: Case) -> str:
    figure = case.figure
    return f"{figure.mean:.3g}" if figure.low is None else f"{figure.mean:.3g} ({figure.low:.3g} .. {figure.high:.3g})"


def plot(cases: Sequence[Case], label: str, text: Text) -> str:
    """Each case as a point with its interval, a line to each; the limit that is claimed is the vertical line."""
    shown = [case for case in cases if math.isfinite(case.figure.mean)][:MOST_ROWS]
    if not shown:
        return ""
    spans = [_reach(case) for case in shown]
    height = ROW * len(shown) + 2 * MARGIN
    parts = [f'<line class="grid" x1="{WIDTH / 2}" x2="{WIDTH / 2}" y1="1" y2="{height - 1}"/>']
    for i, (case, (low, mean, high)) in enumerate(zip(shown, spans, strict=True)):
        y = MARGIN + ROW * (i + 0.5)
        kind = CLASSES.get(case.verdict, "minor")
        parts.append(f'<line class="series {kind}" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>')
        told = text(f"{case.name}: {_told(case)}, wanted {case.wanted}")
        parts.append(f'<circle class="mark {kind}" cx="{mean:.1f}" cy="{y}" r="3"><title>{told}</title></circle>')
    return (
        f'<svg class="small" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{text(label)}: {len(shown)} cases around what is claimed">{"".join(parts)}</svg>'
    )


def _reach(case: Case) -> tuple[float, float, float]:
    """Where a case begins, has its mean, and ends: the limit in the middle, the farthest end at the border."""
    figure, limit = case.figure, float(case.wanted.split()[-1])
    if case.wanted.startswith("within"):
        limit = 0.0
    ends = [
        figure.mean if figure.low is None else figure.low,
        figure.mean,
        figure.mean if figure.high is None else figure.high,
    ]
    far = max(abs(end - limit) for end in ends) or 1.0
    if not math.isfinite(far):
        return 0.5 * WIDTH, 0.5 * WIDTH, 0.5 * WIDTH
    low, mean, high = (WIDTH / 2 + (WIDTH / 2 - MARGIN) * (end - limit) / far for end in ends)
    return low, mean, high


def _figures(shown: Sequence[Judged], n_draws: int, text: Text) -> str:
    """All figures of a sentence: mean, interval, bootstrap, verdict."""
    head = ("reading", "case", "mean", "95% interval", "bootstrap", "unit", "wanted", "verdict")
    rows = []
    for one in shown:
        for case in one.cases:
            figure = case.figure
            t, b = (
                "-" if low is None or high is None else f"{low:.4g} .. {high:.4g}"
                for low, high in ((figure.low, figure.high), (figure.bootstrap_low, figure.bootstrap_high))
            )
            name = f"{case.what} {case.name}".strip()
            cells = (
                one.reading or "any",
                name,
                f"{figure.mean:.4g}",
                t,
                b,
                case.unit,
                case.wanted or "-",
                case.verdict or "-",
            )
            rows.append("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in cells) + "</tr>")
    names = "".join(f'<th scope="col">{name}</th>' for name in head)
    draws = f"{n_draws} draw{'' if n_draws == 1 else 's'}"
    return (
        f'<div class="box" role="region" tabindex="0" aria-label="Figures"><table><caption>Over {draws}</caption>'
        f"<thead><tr>{names}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
