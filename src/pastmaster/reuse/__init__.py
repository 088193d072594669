"""Policy reuse on a new task: selectors, the learner, and the episode engine."""

from pastmaster.reuse.exp3_transfer import Exp3Transfer
from pastmaster.reuse.learner import FixedPolicy, Learner, LearnerSettings
from pastmaster.reuse.new_task import RECOMMENDED, SELECTORS, transfer
from pastmaster.reuse.ppr import ProbabilisticPolicyReuse
from pastmaster.reuse.q_learning import QLearner, QLearning, decay
from pastmaster.reuse.regret_balancing import RegretBalancing
from pastmaster.reuse.run import TransferRun, plot_curves
from pastmaster.reuse.sb3_learner import SB3Learning
from pastmaster.reuse.selector import RegretGuarantee
from pastmaster.reuse.tsallis_inf import TsallisINF

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
    "SB3Learning",
    "TransferRun",
    "TsallisINF",
    "decay",
    "plot_curves",
    "transfer",
]
