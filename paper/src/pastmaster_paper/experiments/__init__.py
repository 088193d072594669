"""The paper's experiments: settings, readings and sentences as data, what is run, the tables and pictures."""

from pastmaster_paper.experiments.folder import Reproduction
from pastmaster_paper.experiments.readings import FIRST_SEED, READINGS, Reading
from pastmaster_paper.experiments.reproduce import EXPERIMENTS, reproduce
from pastmaster_paper.experiments.sentences import SENTENCES

__all__ = ["EXPERIMENTS", "FIRST_SEED", "READINGS", "SENTENCES", "Reading", "Reproduction", "reproduce"]
