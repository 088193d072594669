"""Cross values by episodes: tasks of which only episodes can be run, and what policies are worth in them."""

from pastmaster.estimation.cross_values import estimate_cross_values
from pastmaster.estimation.means import Estimate, estimate_values
from pastmaster.estimation.result import CrossValueEstimate
from pastmaster.estimation.rollouts import EpisodeRange, episode_returns

__all__ = [
    "CrossValueEstimate", "EpisodeRange", "Estimate", "episode_returns", "estimate_cross_values", "estimate_values",
]  # fmt: skip
