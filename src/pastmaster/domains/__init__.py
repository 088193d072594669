"""The three domains of the paper (surveillance in two variants) as exact tasks; CartPoles."""

from pastmaster.domains import cart_pole, coloured_grid, surveillance, windy_corridor

__all__ = ["cart_pole", "coloured_grid", "surveillance", "windy_corridor"]
