"""The paper's experiments: settings as data, what is run, the claims, the tables and pictures."""

from pastmaster.experiments.folder import ENOUGH_SEEDS, Reproduction
from pastmaster.experiments.reproduce import EXPERIMENTS, reproduce

__all__ = ["ENOUGH_SEEDS", "EXPERIMENTS", "Reproduction", "reproduce"]
