"""Timing side by side, and the table the results go into."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pastmaster import parallel

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


@dataclass(frozen=True)
class Row:
    """One measured line: what, our figure, the peer's, their ratio, the goal, and whether it is met."""

    what: str
    ours: str
    peer: str
    ratio: str
    goal: str
    met: bool | None

    def cells(self) -> str:
        verdict = {True: "yes", False: "**no**", None: ""}[self.met]
        return "| " + " | ".join((self.what, self.ours, self.peer, self.ratio, self.goal, verdict)) + " |"


def seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """The best time of several, the first (which may compile) thrown away."""
    call()
    return min(_once(call) for _ in range(repeats))


def _once(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def show(duration: float) -> str:
    """A duration in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if duration >= size:
            return f"{duration / size:.3g} {unit}"
    return f"{duration / 1e-6:.3g} µs"


def write(section: str, intro: str, rows: list[Row]) -> None:
    """Put a section's measured lines into docs/performance.md."""
    write_table(section, intro, "what | pastmaster | peer | ratio | goal | met", [row.cells() for row in rows])


def write_table(section: str, intro: str, header: str, lines: list[str], path: Path = PAGE) -> None:
    """Print a section's table and put it into a page in place of the last one."""
    ruler = "|" + "---|" * (header.count("|") + 1)
    table = "\n".join([intro, "", f"| {header} |", ruler, *lines])
    print(f"\n{section}\n{table}", flush=True)
    begin, end = f"<!-- {section} -->", f"<!-- end {section} -->"
    page = path.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    assert pattern.search(page), f"{path.name} has no place for {section!r}"
    path.write_text(pattern.sub(lambda _: f"{begin}\n{table}\n{end}", page), encoding="utf-8")


def machine(*packages: str) -> str:
    """What the figures were measured on, as a sentence."""
    cores, system = parallel.worker_count(-1), f"{platform.system()} {platform.machine()}"
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", *packages))
    return f"Measured on {system}, {cores} cores, CPython {platform.python_version()}, {versions}."
