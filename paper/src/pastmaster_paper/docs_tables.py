"""Tables of the documentation: each between the marks of its name, so that a new one takes the place of the last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pastmaster_paper.arrays import FloatArray
from pastmaster_paper.experiments.pooled import Pooled
from pastmaster_paper.experiments.reproduce import machine

DOCS = Path("docs")  # of the clone in which the command is run


def write_table(page: Path, section: str, intro: str, header: str, lines: Sequence[str]) -> None:
    """Print a section's table and put it into a page in place of the last one."""
    ruler = "|" + "---|" * (header.count("|") + 1)
    table = "\n".join([intro, "", f"| {header} |", ruler, *lines])
    print(f"\n{section}\n{table}", flush=True)
    write_section(page, section, table)


def write_section(page: Path, section: str, text: str) -> None:
    """Put a text between the marks of a section."""
    begin, end = f"<!-- {section} -->", f"<!-- end {section} -->"
    before = page.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    assert pattern.search(before), f"{page} has no place for {section!r}"
    page.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", before), encoding="utf-8")


def measured_on() -> str:
    """What the figures were measured on, as a sentence."""
    return f"Measured on {machine()}."


def cells(samples: FloatArray) -> list[str]:
    """The mean of each column of samples [n, columns], with half its 95% interval."""
    pooled = [Pooled.of(column, "") for column in np.asarray(samples).T.tolist()]
    return [f"{one.mean:.1f} ± {one.mean - (one.low or one.mean):.1f}" for one in pooled]
