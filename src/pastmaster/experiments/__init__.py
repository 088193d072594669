"""The paper's experiments: settings, readings and sentences as data, what is run, the tables and pictures."""

from pastmaster.experiments.folder import Reproduction
from pastmaster.experiments.readings import FIRST_SEED, READINGS, Reading
from pastmaster.experiments.reproduce import EXPERIMENTS, reproduce
from pastmaster.experiments.sentences import SENTENCES

__all__ = ["EXPERIMENTS", "FIRST_SEED", "READINGS", "SENTENCES", "Reading", "Reproduction", "reproduce"]
