"""The bodies of requests, checked by their schemas in OpenAPI. What is not named here is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from pastmaster.service.operations import Refused
from pastmaster.service.tasks import LONGEST_LEASE, LONGEST_NAME, MOST_OPEN, MOST_SOURCES
from pastmaster.texts import printable

MOST_AT_ONCE = 1000
LARGEST_NUMBER = 2**53 - 1
DOTS = (".", "..")  # which an address takes for folders
_LETTER = r"[^\x00-\x20\x7f-\xa0/\\]"
NAME = f"^{_LETTER}( *{_LETTER})*$"
"""The names that ``tasks.checked_name`` takes, as far as a schema can tell: it does not know all letters not seen."""
KEY = r"^[\x21-\x7e]{1,100}$"

WORDS = {
    "missing": "must be given",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
"""Where pydantic speaks of Python's classes."""
PATTERNS = {
    KEY: "must have 1 to 100 characters of ASCII, no space",
    NAME: "must have no slash, no control character, no space at either end",
}


def _as_whole(number: Any) -> Any:
    """JSON has one kind of number: 4.0 is 4, in its schemas too."""
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number


def _no_dots(name: str) -> str:
    if name in DOTS:
        raise PydanticCustomError("dots", "must be more than dots")
    return name


def _different(items: list[Any]) -> list[Any]:
    if len(set(items)) < len(items):
        raise PydanticCustomError("twice", "must have different items")
    return items


WHOLE = BeforeValidator(_as_whole)
DIFFERENT: dict[str, Any] = {"uniqueItems": True}
SOURCES = Field(min_length=1, max_length=MOST_SOURCES, json_schema_extra=DIFFERENT)
Real = Annotated[float, Field(allow_inf_nan=False, ge=-1e100, le=1e100)]
Lease = Annotated[float, Field(ge=0.001, le=LONGEST_LEASE, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0, le=LARGEST_NUMBER), WHOLE]
Id = Annotated[int, Field(ge=1, le=LARGEST_NUMBER), WHOLE]
Name = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_NAME, pattern=NAME, json_schema_extra={"not": {"enum": [*DOTS]}}),
    AfterValidator(_no_dots),
]


def _with(example: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [example]})


class Body(BaseModel):
    """A body of known fields.

    The first field that is not known ends the reading: pydantic by itself makes an error for each, and of a large body
    this takes most of a second, in which no request is answered.
    """

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, body: Any) -> Any:
        if isinstance(body, dict):
            for name in body:
                if name not in cls.model_fields:
                    words = f"it has a field {printable(name[:40])}, must be of {', '.join(cls.model_fields)}"
                    raise PydanticCustomError("unknown_field", "{words}", {"words": words})
        return body


class AskBody(Body):
    """Ask for episodes."""

    model_config = _with({"key": "visitor-8812"})
    count: Annotated[int, Field(ge=1, le=MOST_AT_ONCE), WHOLE] = 1
    key: Annotated[str, Field(pattern=KEY)] | None = Field(
        None,
        description="The same key again gets the same episodes: send one, and a lost answer can be asked for again.",
    )
    lease: Lease | None = Field(None, description="Seconds until it is forgotten, if not the task's.")


class ReturnBody(Body):
    """The discounted return of an episode."""

    model_config = _with({"value": 0.75})
    value: Real


class EpisodeReturn(Body):
    """One of many returns."""

    model_config = _with({"episode": 12, "value": 0.75})
    episode: Number
    value: Real


class ReturnsBody(Body):
    """Returns of several episodes."""

    model_config = _with({"returns": [{"episode": 12, "value": 0.75}, {"episode": 13, "value": 0.0}]})
    returns: Annotated[list[EpisodeReturn], Field(min_length=1, max_length=MOST_AT_ONCE)]


class TaskBody(Body):
    """A new task."""

    model_config = _with({"name": "site", "sources": "kept", "lease": 1800.0})
    name: Name
    sources: (
        Literal["kept"]
        | Annotated[list[Id], SOURCES, AfterValidator(_different)]
        | Annotated[list[Name], SOURCES, AfterValidator(_different)]
    ) = Field("kept", description="The kept policies, ids of stored policies, or names of what the client runs.")
    selector: Literal["informed", "regret-balancing", "exp3-transfer", "tsallis-inf"] | None = None
    episodes: Annotated[int, Field(ge=1, le=10**11), WHOLE] | None = None
    bounds: (
        Annotated[
            list[Real], Field(min_length=2, max_length=2, json_schema_extra=DIFFERENT), AfterValidator(_different)
        ]
        | None
    ) = Field(None, description="The least and the greatest return.")
    clip: bool = False
    lease: Lease = 3600.0
    expired_return: Real | None = None
    most_open: Annotated[int, Field(ge=1, le=MOST_OPEN), WHOLE] = 100_000
    learner: Name = "learner"
    seed: Number | None = None


Kind = TypeVar("Kind", bound=Body)


def read(kind: type[Kind], raw: bytearray) -> Kind:
    """The body of a request; nothing at all counts as no fields."""
    try:
        return kind.model_validate_json(raw or b"{}")
    except ValidationError as error:
        raise Refused(422, "invalid", _explained(error.errors(include_url=False)[0])) from None


def _explained(error: Mapping[str, Any]) -> str:
    """What is wrong with a body, in a sentence that has nothing of the body but names of fields."""
    kind, place = error["type"], ["body", *(str(part)[:40] for part in error["loc"])]
    words = error["msg"].replace("Input should be", "must be")
    if kind == "string_pattern_mismatch":
        words = PATTERNS[error["ctx"]["pattern"]]
    elif "sources" in place:
        place = place[:2]
        words = 'must be "kept", a list of different ids, or one of different names'
    else:
        words = WORDS.get(kind, words)
    return f"request: {printable('.'.join(place))} is wrong: {words[:200]}"
