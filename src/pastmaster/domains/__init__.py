"""The three domains of the paper (surveillance in two variants) as exact tasks; opponents at poker; CartPoles."""

from pastmaster.domains import cart_pole, coloured_grid, leduc, surveillance, windy_corridor

__all__ = ["cart_pole", "coloured_grid", "leduc", "surveillance", "windy_corridor"]
