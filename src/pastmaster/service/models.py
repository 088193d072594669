"""The bodies of requests, as OpenAPI shows them. What is not named here is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pastmaster.service.operations import Refused
from pastmaster.service.tasks import LONGEST_LEASE, LONGEST_NAME, MOST_OPEN, MOST_SOURCES
from pastmaster.texts import printable

MOST_AT_ONCE = 1000
LARGEST_NUMBER = 2**53 - 1
Real = Annotated[float, Field(allow_inf_nan=False, ge=-1e100, le=1e100)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Number = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]


Body = TypeVar("Body", bound=BaseModel)


def read(kind: type[Body], raw: bytes) -> Body:
    """The body of a request. FastAPI would read it too, in three times the time: this is for what is asked most."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise Refused(422, "invalid", explained(error.errors(include_url=False)[0])) from None


def read_number(text: str) -> int:
    """The number of an episode, as an address has it."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 16 and int(text) <= LARGEST_NUMBER):
        raise Refused(
            422, "invalid", f"request: path.number is wrong: it must be a whole number up to {LARGEST_NUMBER}"
        )
    return int(text)


def explained(error: Mapping[str, Any]) -> str:
    """What is wrong with a body, in a sentence that has nothing of the body but names of fields."""
    place = ".".join(str(part)[:40] for part in error["loc"]) or "body"
    return f"request: {printable(place)} is wrong: {error['msg'][:200]}"


def _with(example: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [example]})


class AskBody(BaseModel):
    """Ask for episodes."""

    model_config = _with({"key": "visitor-8812"})
    count: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] = 1
    key: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,100}$")] | None = Field(
        default=None,
        description="The same key again gets the same episodes: send one, and a lost answer can be asked for again.",
    )
    lease: Annotated[float, Field(ge=0.001, le=LONGEST_LEASE, allow_inf_nan=False)] | None = Field(
        default=None, description="Seconds until it is forgotten, if not the task's."
    )


class ReturnBody(BaseModel):
    """The discounted return of an episode."""

    model_config = _with({"value": 0.75})
    value: Real


class EpisodeReturn(BaseModel):
    """One of many returns."""

    model_config = _with({"episode": 12, "value": 0.75})
    episode: Number
    value: Real


class ReturnsBody(BaseModel):
    """Returns of several episodes."""

    model_config = _with({"returns": [{"episode": 12, "value": 0.75}, {"episode": 13, "value": 0.0}]})
    returns: Annotated[list[EpisodeReturn], Field(min_length=1, max_length=MOST_AT_ONCE)]


class TaskBody(BaseModel):
    """A new task."""

    model_config = _with({"name": "site", "sources": "kept", "lease": 1800.0})
    name: Name
    sources: (
        Literal["kept"]
        | Annotated[list[Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]], Field(max_length=MOST_SOURCES)]
        | Annotated[list[Name], Field(max_length=MOST_SOURCES)]
    ) = Field("kept", description="The kept policies, ids of stored policies, or names of what the client runs.")
    selector: Annotated[str, Field(max_length=LONGEST_NAME)] | None = None
    episodes: Annotated[int, Field(ge=1, le=10**11)] | None = None
    bounds: Annotated[list[Real], Field(min_length=2, max_length=2)] | None = None
    clip: bool = False
    lease: Annotated[float, Field(ge=0.001, le=LONGEST_LEASE, allow_inf_nan=False)] = 3600.0
    expired_return: Real | None = None
    most_open: Annotated[int, Field(ge=1, le=MOST_OPEN)] = 100_000
    learner: Name = "learner"
    seed: Number | None = None
