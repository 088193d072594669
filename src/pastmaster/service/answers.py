"""The bodies of answers, as OpenAPI shows them. They are sent as the operations make them: a test compares the two."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

Outcome = Literal["open", "told", "cancelled", "expired"]


def _with(example: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [example]})


EPISODE = {"number": 12, "arm": 1, "name": "right", "policy": None, "lease": 1800.0}
TOLD = {"episode": 12, "outcome": "told", "value": 0.75, "repeated": False}
ERROR = {"code": "conflict", "message": "tell: value is 0.5 for episode 12, which was told 0.75 before"}
REFUSED = {"episode": 13, "error": {"code": "expired", "message": "tell: episode 13 is expired, must be open"}}


class ErrorWords(BaseModel):
    """A code for programs, a sentence for people."""

    model_config = _with(ERROR)
    code: str
    message: str


class ErrorAnswer(BaseModel):
    """The one form of all errors."""

    model_config = _with({"error": ERROR})
    error: ErrorWords


class EpisodeAnswer(BaseModel):
    """An episode to run."""

    model_config = _with(EPISODE)
    number: int = Field(ge=0)
    arm: int = Field(ge=0, description="Who is to run it: a source, or the learner, which is the last arm.")
    name: str = Field(description="What the arm is called.")
    policy: str | None = Field(description="The digest of its policy, where it is a stored one.")
    lease: float = Field(ge=0, description="Seconds until it expires.")


class AskAnswer(BaseModel):
    """The episodes asked for."""

    model_config = _with({"episodes": [EPISODE]})
    episodes: list[EpisodeAnswer]


class EpisodeState(EpisodeAnswer):
    """What became of an episode."""

    model_config = _with(EPISODE | {"outcome": "told", "value": 0.75, "lease": 1620.5})
    outcome: Outcome
    value: float | None = Field(description="Its return, if it was told one.")


class Told(BaseModel):
    """What became of an episode; ``repeated`` if it had been so before."""

    model_config = _with(TOLD)
    episode: int = Field(ge=0)
    outcome: Outcome
    value: float | None = None
    repeated: bool


class Untold(BaseModel):
    """A return that was refused, among others."""

    model_config = _with(REFUSED)
    episode: int = Field(ge=0)
    error: ErrorWords


class ReturnsAnswer(BaseModel):
    """What became of each episode, in the order of the request."""

    model_config = _with({"returns": [TOLD, REFUSED]})
    returns: list[Told | Untold]


class ArmState(BaseModel):
    """One arm of a task."""

    name: str
    policy: str | None = Field(description="The digest of its policy, where it is a stored one.")
    told: int = Field(ge=0, description="How many of its episodes were told.")
    expired: int = Field(ge=0, description="How many of its episodes expired.")
    share: float = Field(ge=0, le=1, description="Of all returns: those told, and each `expired_return`.")
    probability: float = Field(ge=0, le=1, description="That the next ask gets it.")
    in_play: bool = Field(description="Whether it has not been dropped.")
    mean: float | None
    lower: float | None = Field(description="Of the mean's 95% interval.")
    upper: float | None


class Best(BaseModel):
    """The arm with the largest mean return so far."""

    arm: int = Field(ge=0)
    certain: bool = Field(description="Whether its interval is above all others.")


class Guarantee(BaseModel):
    """What is proven about the mean loss per episode: numbers, and a sentence."""

    episodes: int | None
    to_learner: float | None
    to_each_source: float | None
    to_best_source: float | None
    statement: str


class Returns(BaseModel):
    """Mean returns over time, of ``width`` episodes each; null where there are none."""

    width: int = Field(ge=1)
    all: list[float | None]
    learner: list[float | None]
    expired: list[int] = Field(description="How many episodes expired meanwhile.")


class Expiring(BaseModel):
    """An open episode, of those that expire next."""

    number: int = Field(ge=0)
    arm: int = Field(ge=0)
    name: str
    lease: float = Field(ge=0, description="Seconds left.")
    late: bool = Field(description="Whether its lease is over: it expires at the next look.")


LEFT = {
    "name": "left", "policy": None, "told": 1, "expired": 0, "share": 0.25, "probability": 0.2, "in_play": True,
    "mean": 0.0, "lower": 0.0, "upper": 0.97,
}  # fmt: skip
RIGHT = LEFT | {
    "name": "right",
    "told": 3,
    "share": 0.75,
    "probability": 0.7,
    "mean": 0.75,
    "lower": 0.12,
    "upper": 1.0,
}
LEARNER = LEFT | {
    "name": "learner", "told": 0, "share": 0.0, "probability": 0.1, "mean": None, "lower": None, "upper": None,
}  # fmt: skip
TASK = {
    "name": "site", "selector": "tsallis-inf", "seed": 7, "bounds": [0.0, 1.0], "lease": 1800.0, "expired_return": None,
    "asked": 5, "told": 4, "open": 1, "cancelled": 0, "expired": 0, "arms": [LEFT, RIGHT, LEARNER],
    "best": {"arm": 1, "certain": False},
    "guarantee": {
        "episodes": 4, "to_learner": 1.0, "to_each_source": 1.0, "to_best_source": None,
        "statement": "In 4 episodes the mean loss to the best arm is at most 1.",
    },
    "returns": {"width": 1, "all": [0.0, 0.75, 0.5, 1.0], "learner": [None, None, None, None], "expired": [0] * 4},
    "next_to_expire": [{"number": 4, "arm": 1, "name": "right", "lease": 1790.0, "late": False}],
}  # fmt: skip


class TaskState(BaseModel):
    """What a task looks like now."""

    model_config = _with(TASK)
    name: str
    selector: str
    seed: int | None
    bounds: list[float] = Field(min_length=2, max_length=2)
    lease: float
    expired_return: float | None
    asked: int = Field(ge=0)
    told: int = Field(ge=0, description="With open, cancelled and expired, as many as were asked.")
    open: int = Field(ge=0)
    cancelled: int = Field(ge=0)
    expired: int = Field(ge=0, description="Each counts as `expired_return`, or is forgotten if that is null.")
    arms: list[ArmState] = Field(description="The sources, and last the learner.")
    best: Best | None
    guarantee: Guarantee
    returns: Returns
    next_to_expire: list[Expiring]


class DamagedTask(BaseModel):
    """A task whose records are damaged."""

    name: str
    error: str = Field(description="What is wrong with it.")


class LiveTasks(BaseModel):
    """What all tasks look like now."""

    model_config = _with({"tasks": [TASK]})
    tasks: list[TaskState | DamagedTask]


class LiveFailure(BaseModel):
    """Why there is nothing to show."""

    model_config = _with({"error": "serve: the database does not answer, try again later"})
    error: str


class LiveEvent(RootModel[LiveTasks | LiveFailure]):
    """What an event of the live page has as its data."""

    model_config = _with({"tasks": [TASK]})


class TaskNames(BaseModel):
    """The names of all tasks."""

    model_config = _with({"tasks": ["shop", "site"]})
    tasks: list[str]


class Removed(BaseModel):
    """The name of the task that was removed."""

    model_config = _with({"removed": "site"})
    removed: str


class StoredPolicy(BaseModel):
    """A policy of the repository."""

    id: int
    name: str
    digest: str = Field(pattern="^[0-9a-f]{64}$")


class Policies(BaseModel):
    """The policies that are stored."""

    model_config = _with({"policies": [{"id": 1, "name": "corridor", "digest": "0123456789abcdef" * 4}]})
    policies: list[StoredPolicy]


class Health(BaseModel):
    """Whether the last transaction went well, and none takes long."""

    model_config = _with({"status": "ok"})
    status: Literal["ok", "failing"]
