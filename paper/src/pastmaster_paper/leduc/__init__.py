"""Opponents at Leduc hold'em, a small poker game, as exact tasks; ``tasks`` tells the game."""

from pastmaster_paper.leduc.opponents import KINDS
from pastmaster_paper.leduc.tasks import GAMMA, family, information_states, new_tasks, opponent, task
from pastmaster_paper.leduc.tree import CALL, FOLD, RAISE, InformationState

__all__ = [
    "CALL",
    "FOLD",
    "GAMMA",
    "KINDS",
    "RAISE",
    "InformationState",
    "family",
    "information_states",
    "new_tasks",
    "opponent",
    "task",
]
