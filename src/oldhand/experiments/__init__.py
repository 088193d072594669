"""The paper's experiments: settings as data, what is run, the claims, the figures; a module each."""

from oldhand.experiments.registry import EXPERIMENTS
from oldhand.experiments.reproduce import ENOUGH_SEEDS, Reproduction, reproduce

__all__ = ["ENOUGH_SEEDS", "EXPERIMENTS", "Reproduction", "reproduce"]
