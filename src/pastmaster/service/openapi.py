"""What OpenAPI says of the table of routes: who may send each request, what is answered, and every error."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from pastmaster.service import answers
from pastmaster.service.app import Route
from pastmaster.service.bodies import LARGEST_NUMBER

COMPONENT = "#/components/schemas/{model}"
ERRORS = {
    "401": "No good token.",
    "403": "The token is for another role; or there are no tokens, and the request is not from this computer.",
    "404": "No such task, episode or policy.",
    "409": "The request fits its schema, but not what is there (what was told, asked or made before is another, the "
    "episode is over, the return is outside the bounds of its task), or its fields do not fit each other.",
    "413": "The body is too large.",
    "415": "The body is no JSON by its content type.",
    "422": "The request does not fit its schema.",
    "429": "Too many requests, or too many open episodes: try again later.",
    "500": "A fault of the service, or a task whose records are damaged.",
    "503": "The database does not answer: try again.",
    "default": "Any other error.",
}
ALWAYS = {"401", "403", "429", "500", "503", "default"}
IN_PATH: dict[str, Any] = {
    "task": {"type": "string", "examples": ["site"]},
    "number": {"type": "integer", "minimum": 0, "maximum": LARGEST_NUMBER, "examples": [12]},
    "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$", "examples": ["01" * 32]},
}
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "What `pastmaster token add` printed. The roles are read, decide and admin: each may do what those "
    "before it may. Where no tokens were made, only requests from the same computer are served, and need none.",
}


class Schemas:
    """The schemas of types, each once, referred to by name."""

    def __init__(self) -> None:
        self.all: dict[str, Any] = {}

    def __call__(self, kind: Any) -> Any:
        found = TypeAdapter(kind).json_schema(ref_template=COMPONENT)
        self.all |= found.pop("$defs", {})
        if "$ref" in found or "anyOf" in found:
            return found
        self.all[found["title"]] = found
        return {"$ref": COMPONENT.format(model=found["title"])}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The description of these routes."""
    schemas, paths = Schemas(), dict[str, Any]()
    for route in routes:
        if route.answers:
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.2.0",
        "info": {
            "title": "pastmaster",
            "version": "1",
            "description": "Which policy runs the next episode: ask, run it, tell its return.",
        },
        "paths": paths,
        "components": {"schemas": schemas.all, "securitySchemes": {"bearer": BEARER}},
    }


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    named = re.findall(r"{(\w+)}", route.path)
    found: dict[str, Any] = {
        "operationId": route.run.__name__,
        "description": inspect.getdoc(route.run),
        "tags": [route.role or "watch"],
        "security": [] if route.role is None else [{"bearer": [route.role]}],
        "parameters": [{"name": name, "in": "path", "required": True, "schema": IN_PATH[name]} for name in named],
        "responses": {str(status): _answer(kind, schemas) for status, kind in route.answers.items()},
    }
    if route.body is not None:
        required = any(field.is_required() for field in route.body.model_fields.values())
        content = {"application/json": {"schema": schemas(route.body)}}
        found["requestBody"] = {"required": required, "content": content}
    error = {"application/json": {"schema": schemas(answers.ErrorAnswer)}}
    for status in _errors(route, named):
        found["responses"].setdefault(status, {"description": ERRORS[status], "content": error})
    return found


def _errors(route: Route, named: list[str]) -> list[str]:
    """The statuses of the errors that a route may answer with."""
    may_be = set(ALWAYS)
    if named:
        may_be.add("404")
    if route.method == "POST":
        may_be |= {"409", "413", "415", "422"}
    if "number" in named or "digest" in named:
        may_be.add("422")
    return sorted(may_be)


def _answer(kind: Any, schemas: Schemas) -> dict[str, Any]:
    """An answer of a type, or of a type of content that is no JSON."""
    if kind == "text/event-stream":  # each event has one JSON value
        data = {"type": "string", "contentMediaType": "application/json"}
        data["contentSchema"] = schemas(answers.LiveTasks | answers.LiveFailure)
        event = {"type": "object", "required": ["data"], "properties": {"data": data}}
        return {"description": "An event a second.", "content": {kind: {"itemSchema": event}}}
    if isinstance(kind, str):
        return {"description": f"It is {kind}.", "content": {kind: {"schema": {"type": "string"}}}}
    return {"description": "It went well.", "content": {"application/json": {"schema": schemas(kind)}}}
