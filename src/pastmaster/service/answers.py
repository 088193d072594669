"""What requests are answered with: the types of what operations return, whose schemas OpenAPI shows."""

from __future__ import annotations

from typing import Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from pastmaster.service.schema import Outcome

described = with_config(ConfigDict(use_attribute_docstrings=True))


class ErrorWords(TypedDict):
    """A code for programs, a sentence for people."""

    code: str
    message: str


class ErrorAnswer(TypedDict):
    """The one form of all errors."""

    error: ErrorWords


@described
class EpisodeAnswer(TypedDict):
    """An episode to run."""

    number: int
    arm: int
    """Who is to run it: a source, or the learner, which is the last arm."""
    name: str
    """What the arm is called."""
    policy: str | None
    """The digest of its policy, where it is a stored one."""
    lease: float
    """Seconds until it expires."""


class AskAnswer(TypedDict):
    """The episodes asked for."""

    episodes: list[EpisodeAnswer]


@described
class EpisodeState(EpisodeAnswer):
    """What became of an episode."""

    outcome: Outcome
    value: float | None
    """Its return, if it was told one."""


class Told(TypedDict):
    """What became of an episode; ``repeated`` if it had been so before."""

    episode: int
    outcome: Outcome
    value: NotRequired[float]
    repeated: bool


class Untold(TypedDict):
    """A return that was refused, among others."""

    episode: int
    error: ErrorWords


class ReturnsAnswer(TypedDict):
    """What became of each episode, in the order of the request."""

    returns: list[Told | Untold]


@described
class ArmState(TypedDict):
    """One arm of a task."""

    name: str
    policy: str | None
    """The digest of its policy, where it is a stored one."""
    told: int
    """How many of its episodes were told."""
    expired: int
    """How many of its episodes expired."""
    share: float
    """Of all returns: those told, and each `expired_return`."""
    probability: float
    """That the next ask gets it."""
    in_play: bool
    """Whether it has not been dropped."""
    mean: float | None
    lower: float | None
    """Of the mean's 95% interval."""
    upper: float | None


@described
class Best(TypedDict):
    """The arm with the largest mean return so far."""

    arm: int
    certain: bool
    """Whether its interval is above all others."""


class Guarantee(TypedDict):
    """What is proven about the mean loss per episode: numbers, and a sentence."""

    episodes: int | None
    to_learner: float | None
    to_each_source: float | None
    to_best_source: float | None
    statement: str


@described
class Returns(TypedDict):
    """Mean returns over time, of ``width`` episodes each; null where there are none."""

    width: int
    all: list[float | None]
    learner: list[float | None]
    expired: list[int]
    """How many episodes expired meanwhile."""


@described
class Expiring(TypedDict):
    """An open episode, of those that expire next."""

    number: int
    arm: int
    name: str
    lease: float
    """Seconds left."""
    late: bool
    """Whether its lease is over: it expires at the next look."""


@described
class TaskState(TypedDict):
    """What a task looks like now."""

    name: str
    selector: str
    seed: int | None
    bounds: list[float]
    lease: float
    expired_return: float | None
    asked: int
    told: int
    """With open, cancelled and expired, as many as were asked."""
    open: int
    cancelled: int
    expired: int
    """Each counts as `expired_return`, or is forgotten if that is null."""
    arms: list[ArmState]
    """The sources, and last the learner."""
    best: Best | None
    guarantee: Guarantee
    returns: Returns
    next_to_expire: list[Expiring]


@described
class DamagedTask(TypedDict):
    """A task whose records are damaged."""

    name: str
    error: str
    """What is wrong with it."""


class LiveTasks(TypedDict):
    """What all tasks look like now."""

    tasks: list[TaskState | DamagedTask]


class LiveFailure(TypedDict):
    """Why there is nothing to show."""

    error: str


class TaskNames(TypedDict):
    """The names of all tasks."""

    tasks: list[str]


class Removed(TypedDict):
    """The name of the task that was removed."""

    removed: str


class StoredPolicy(TypedDict):
    """A policy of the repository."""

    id: int
    name: str
    digest: str


class Policies(TypedDict):
    """The policies that are stored."""

    policies: list[StoredPolicy]


class Health(TypedDict):
    """Whether the last transaction went well, and none takes long."""

    status: Literal["ok", "failing"]
