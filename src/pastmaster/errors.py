"""The exceptions pastmaster raises: one small tree.

Every message names the function, the argument, what was got and where, and what would be right:
``TabularMDP: probability[12, 3] sums to 0.97, must be 1``.
"""

from __future__ import annotations

from pastmaster.texts import printable

LONGEST = 2000  # letters of a message: names in it may be of any length


class PastmasterError(Exception):
    """The root: ``except PastmasterError`` catches everything the library raises on purpose."""

    def __str__(self) -> str:
        """The message, as a terminal may show it: names in it come from anywhere."""
        message = super().__str__()
        if len(message) > LONGEST:
            message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"
        return printable(message, keep="\n")


class InvalidInputError(PastmasterError, ValueError):
    """An argument is wrong; nothing was built, stored or changed."""


class MissingPackageError(PastmasterError, ImportError):
    """A package that pastmaster does not install by itself is needed; the message says how to install it."""


class RepositoryError(PastmasterError):
    """A repository cannot be opened, read or written; what was committed before stands."""


class DamagedError(RepositoryError):
    """Something stored is not what was written; the message names it."""


class ServiceError(PastmasterError, RuntimeError):
    """The service refuses a request, or does not answer; ``code`` is for programs, ``status`` is HTTP's, 0 for none."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class LostWorkerError(PastmasterError, RuntimeError):
    """The workers of a call died, or cannot work; the same call with ``save`` goes on from the finished chunks."""


class TaskError(PastmasterError, RuntimeError):
    """The environment of a task raised, hung, or returned what it must not; the message names it."""


class ContractError(PastmasterError, AssertionError):
    """A task, policy, learner or selector breaks its contract; ``pastmaster.testing`` found it."""
