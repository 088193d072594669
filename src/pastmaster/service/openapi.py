"""What OpenAPI says of the requests: who may send them, what is answered, and every error in its one form."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from pastmaster.service import answers, models
from pastmaster.service.gate import needed_role

Described = dict[int | str, dict[str, Any]]
COMPONENT = "#/components/schemas/{model}"
METHODS = ("get", "post", "delete")
WORDS: dict[int | str, str] = {
    401: "No good token.",
    403: "The token is for another role; or there are no tokens, and the request is not from this computer.",
    404: "No such task, episode or policy.",
    408: "The body took too long.",
    409: "The request fits its schema, but not what is there (what was told, asked or made before is another, the "
    "episode is over, the return is outside the bounds of its task), or its fields do not fit each other.",
    413: "The body is too large.",
    415: "The body is no JSON by its content type.",
    422: "The request does not fit its schema.",
    429: "Too many requests, or too many open episodes: try again later.",
    500: "A fault of the service, or a task whose records are damaged.",
    503: "The database does not answer: try again.",
    "default": "Any other error.",
}
ALWAYS: tuple[int | str, ...] = (401, 403, 429, 500, 503, "default")
BODY = (408, 413, 415, 422)
"""The errors of a request that has a body."""
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "What `pastmaster token add` printed. The roles are read, decide and admin: each may do what those "
    "before it may. Where no tokens were made, only requests from the same computer are served, and need none.",
}


def errors(*statuses: int) -> Described:
    """The error answers of an operation: these, and those that any may have."""
    found = sorted({*statuses, *ALWAYS}, key=str)
    return {status: {"model": answers.ErrorAnswer, "description": WORDS[status]} for status in found}


def plain(kind: str, words: str, example: str | None = None) -> Described:
    """An answer that is no JSON."""
    schema: dict[str, Any] = {"type": "string"} | ({"examples": [example]} if example else {"format": "binary"})
    return {200: {"description": words, "content": {kind: {"schema": schema}}}}


def events() -> Described:
    """The answer of server-sent events, each with one JSON value; described as FastAPI describes such answers."""
    data = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"$ref": COMPONENT.format(model="LiveEvent")},
    }
    event = {"type": "object", "required": ["data"], "properties": {"data": data}}
    return {200: {"description": "An event a second.", "content": {"text/event-stream": {"itemSchema": event}}}}


def described(kind: type[BaseModel], *path: str, required: bool = True) -> dict[str, Any]:
    """What OpenAPI says of a request that ``models.read`` reads."""
    names = {
        "task": {"type": "string", "examples": ["site"]},
        "number": {"type": "integer", "minimum": 0, "maximum": models.LARGEST_NUMBER, "examples": [12]},
    }
    return {
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": names[name]} for name in ("task", *path)
        ],
        "requestBody": {"required": required, "content": {"application/json": {"schema": kind.model_json_schema()}}},
    }


def complete(app: FastAPI) -> None:
    """Let the description of an application say which role each request needs, and give examples in full."""
    without = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = without()
            found["components"]["securitySchemes"] = {"bearer": BEARER}
            _add_events(found["components"]["schemas"])
            for path, operations in found["paths"].items():
                for method in operations.keys() & set(METHODS):
                    role = needed_role(method.upper(), path)
                    operations[method]["security"] = [] if role is None else [{"bearer": [role]}]
            for name, schema in found["components"]["schemas"].items():
                if "examples" in schema and (kind := getattr(answers, name, None)) is not None:
                    schema["examples"] = kind.model_json_schema()["examples"]  # FastAPI leaves out what is null
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]  # how FastAPI lets one say more


def _add_events(schemas: dict[str, Any]) -> None:
    """Describe the events of the live page: FastAPI knows no models but those of whole bodies."""
    event = answers.LiveEvent.model_json_schema(ref_template=COMPONENT, mode="serialization")
    for name, schema in event.pop("$defs").items():
        schemas.setdefault(name, schema)
    schemas["LiveEvent"] = event
