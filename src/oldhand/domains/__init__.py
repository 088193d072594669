"""The three domains of the paper (surveillance in two variants), as exact tasks and as Gymnasium environments."""

from oldhand.domains import coloured_grid, surveillance, windy_corridor

__all__ = ["coloured_grid", "surveillance", "windy_corridor"]
