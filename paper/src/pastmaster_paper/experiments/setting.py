"""Settings of the surveillance experiments: so many previous tasks of so many targets."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """So many previous tasks of so many targets, drawn from so many group sequences unless a reading says otherwise."""

    previous: int
    targets: int
    sequences: int
    complex: bool = False

    @property
    def name(self) -> str:
        """A name for files: complex-100-2."""
        return f"{'complex-' if self.complex else ''}{self.previous}-{self.targets}"

    @property
    def title(self) -> str:
        """A name for people."""
        targets = f"{self.targets} target{'s' if self.targets > 1 else ''}"
        return f"{'complex, ' if self.complex else ''}{self.previous} previous tasks, {targets}"

    @property
    def short(self) -> str:
        """A name for tables: 96/2."""
        return f"{'complex ' if self.complex else ''}{self.previous}/{self.targets}"

    @property
    def per_sequence(self) -> int:
        """How many tasks a group sequence has."""
        return int((5 if self.complex else 4) ** self.targets)

    @property
    def most_sequences(self) -> int:
        """How many there are, and can be drawn from: each has at least one task."""
        return min(self.previous, math.perm(16, self.targets))


SIMPLE = tuple(
    Setting(*numbers)
    for numbers in ((64, 1, 16), (96, 2, 6), (125, 2, 12), (256, 2, 16), (100, 3, 5), (200, 3, 10), (300, 3, 20))
)
"""In the order of their complexity."""
COMPLEX = (Setting(100, 2, 6, True), Setting(200, 2, 12, True))
SETTINGS = (*SIMPLE, *COMPLEX)
BY_NAME = {setting.name: setting for setting in SETTINGS}
