"""The paper's experiments: settings as data, what is run, the claims, the figures; a module each."""

from pastmaster.experiments.registry import EXPERIMENTS
from pastmaster.experiments.reproduce import ENOUGH_SEEDS, Reproduction, reproduce

__all__ = ["ENOUGH_SEEDS", "EXPERIMENTS", "Reproduction", "reproduce"]
