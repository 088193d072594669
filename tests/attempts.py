"""Attacks are counted: how often each was tried, and how often what is promised did not hold.

A test asks the fixture ``attempts`` for a tally, tells it each attempt, and fails at its end if one failed, with the
reasons. ``make soak`` prints the tallies of all tests as one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Tally:
    """How often something was tried, and why it failed where it did."""

    what: str
    promise: str
    tried: int = 0
    failures: list[str] = field(default_factory=list)

    def survived(self, times: int = 1) -> None:
        """So many attempts did no harm."""
        self.tried += times

    def failed(self, why: str) -> None:
        """One attempt broke the promise."""
        self.tried += 1
        self.failures.append(why)

    @contextmanager
    def attempt(self, described: str = "") -> Iterator[None]:
        """One attempt: any exception in the block is a failure, and the next attempt goes on."""
        try:
            yield
        except Exception as error:
            self.failed(f"{described}: {type(error).__name__}: {error}")
        else:
            self.survived()

    def assert_held(self) -> None:
        """Fail with the reasons, if there are any."""
        shown = "\n".join(self.failures[:20])
        assert not self.failures, f"{self.what}: {len(self.failures)} of {self.tried} failed:\n{shown}"


Row = tuple[str, str, int, int]
"""What was tried, what is promised, how often it was tried, how often it failed."""


def table(rows: Iterable[Row]) -> list[str]:
    """The tallies as lines of a Markdown table, those of one name and promise added up."""
    totals: dict[tuple[str, str], list[int]] = {}
    for what, promise, tried, failed in rows:
        total = totals.setdefault((what, promise), [0, 0])
        total[0] += tried
        total[1] += failed
    body = [
        f"| {what} | {promise} | {tried:,} | {tried - failed:,} | {failed:,} |"
        for (what, promise), (tried, failed) in sorted(totals.items())
    ]
    return ["| what was tried | what is promised | tried | survived | failed |", "|---|---|---|---|---|", *body]
