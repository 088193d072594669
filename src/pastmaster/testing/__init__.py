"""Checks that anyone can run on tasks, policies, learners and selectors of their own.

Each check raises ``pastmaster.errors.ContractError``, which is also an ``AssertionError``: use them in your tests.
"""

from pastmaster.testing.learners import check_learner
from pastmaster.testing.policies import check_policy
from pastmaster.testing.selectors import check_selector
from pastmaster.testing.tasks import check_task

__all__ = ["check_learner", "check_policy", "check_selector", "check_task"]
