"""How much of everything is run: the paper's numbers, or a quick look at each experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

HORIZONS = (1_000, 5_000, 10_000)
"""The numbers of episodes T that the paper tunes for; the last is used unless another is named."""
EPISODES = HORIZONS[-1]
WINDOWS = 100
"""Points of a learning curve; a "final" reward is the mean over the last of them."""


@dataclass(frozen=True)
class Scale:
    """Targets, trials, restarts and steps of the search, draws of coloured grids, searches of the windy corridor."""

    name: str
    targets: int = 10
    trials: int = 10
    restarts: int = 20
    iterations: int = 100_000
    grids: int = 10
    searches: int = 1
    incremental_step: int = 1

    @property
    def search(self) -> dict[str, Any]:
        """Arguments of ``search_clusterings``."""
        return {"restarts": self.restarts, "iterations": self.iterations}


FULL = Scale("full")
QUICK = Scale("quick", targets=2, trials=1, restarts=2, iterations=5_000, grids=2, incremental_step=10)
