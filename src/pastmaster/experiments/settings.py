"""The nine surveillance settings of the paper."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """So many previous tasks of so many targets, drawn from so many group sequences."""

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


SIMPLE = (
    Setting(64, 1, 16),
    Setting(96, 2, 6),
    Setting(125, 2, 12),
    Setting(256, 2, 16),
    Setting(100, 3, 5),
    Setting(200, 3, 10),
    Setting(300, 3, 20),
)
COMPLEX = (Setting(100, 2, 6, True), Setting(200, 2, 12, True))
SETTINGS = (*SIMPLE, *COMPLEX)
CORRECTED = ("96-2", "200-3")
"""Settings in which the paper's own span and chain are run beside ours."""
