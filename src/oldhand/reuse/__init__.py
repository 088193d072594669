"""Policy reuse on a new task: selectors, the learner, and the episode engine."""

from oldhand.reuse.exp3_transfer import Exp3Transfer
from oldhand.reuse.learner import FixedPolicy, Learner, LearnerSettings
from oldhand.reuse.ppr import ProbabilisticPolicyReuse
from oldhand.reuse.q_learning import QLearner, QLearning, decay
from oldhand.reuse.regret_balancing import RegretBalancing
from oldhand.reuse.run import TransferRun, plot_curves
from oldhand.reuse.selector import RegretGuarantee
from oldhand.reuse.transfer import RECOMMENDED, SELECTORS, transfer
from oldhand.reuse.tsallis_inf import TsallisINF

__all__ = [
    "RECOMMENDED",
    "SELECTORS",
    "Exp3Transfer",
    "FixedPolicy",
    "Learner",
    "LearnerSettings",
    "ProbabilisticPolicyReuse",
    "QLearner",
    "QLearning",
    "RegretBalancing",
    "RegretGuarantee",
    "TransferRun",
    "TsallisINF",
    "decay",
    "plot_curves",
    "transfer",
]
