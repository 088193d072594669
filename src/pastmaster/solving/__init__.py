"""The best policy of a task, with a proof of how good it is."""

from pastmaster.solving.policy_iteration import Solution, solve

__all__ = ["Solution", "solve"]
