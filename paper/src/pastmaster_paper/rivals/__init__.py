"""Selectors of other authors, as published, to compare with. They choose among the sources alone and have no learner.

Each can be the ``selector`` of ``pastmaster.transfer``, which then never runs its learner. They
work on payoffs: returns scaled by the bounds to 0 .. 1.
"""

from pastmaster_paper.rivals.bayesian_policy_reuse import BayesianPolicyReuse
from pastmaster_paper.rivals.latent_bandits import LatentThompson, LatentUCB
from pastmaster_paper.rivals.policy_advice import PolicyAdvice
from pastmaster_paper.rivals.ucb1 import UCB1

__all__ = ["UCB1", "BayesianPolicyReuse", "LatentThompson", "LatentUCB", "PolicyAdvice"]
