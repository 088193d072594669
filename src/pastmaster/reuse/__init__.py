"""Policy reuse on a new task: selectors, the learner, and the episode engine."""

from pastmaster.reuse.advice import Advice
from pastmaster.reuse.asked import Episode
from pastmaster.reuse.defaults import RECOMMENDED
from pastmaster.reuse.exp3_transfer import Exp3Transfer
from pastmaster.reuse.experience import Experience
from pastmaster.reuse.fixed_policy import FixedPolicy
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.reuse.informed import Informed
from pastmaster.reuse.new_task import transfer
from pastmaster.reuse.ppr import ProbabilisticPolicyReuse
from pastmaster.reuse.protocols import Learner, LearnerSettings, SelectorProtocol
from pastmaster.reuse.q_learning import QLearner, QLearning, decay
from pastmaster.reuse.regret_balancing import RegretBalancing
from pastmaster.reuse.run import TransferRun, plot_curves
from pastmaster.reuse.sb3_learner import SB3Learning
from pastmaster.reuse.trial import SELECTORS
from pastmaster.reuse.tsallis_inf import TsallisINF

__all__ = [
    "RECOMMENDED",
    "SELECTORS",
    "Advice",
    "Episode",
    "Exp3Transfer",
    "Experience",
    "FixedPolicy",
    "Informed",
    "Learner",
    "LearnerSettings",
    "ProbabilisticPolicyReuse",
    "QLearner",
    "QLearning",
    "RegretBalancing",
    "RegretGuarantee",
    "SB3Learning",
    "SelectorProtocol",
    "TransferRun",
    "TsallisINF",
    "decay",
    "plot_curves",
    "transfer",
]
