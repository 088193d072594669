"""What /openapi.json promises is kept: a body that fits its schema is not refused as wrong, and is answered as told.

Bodies are drawn from the schemas that the service itself tells.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings, strategies as st
from hypothesis.strategies import SearchStrategy
from service_world import SOURCES, api, small_task
from test_openapi import faults, of_events

pytestmark = pytest.mark.long(20)
WRONG = (400, 413, 415, 422)
LETTERS = st.characters(codec="utf-8")


def fitting(spec: Any, schema: Any) -> SearchStrategy[Any]:
    """Values that fit a schema."""
    if "$ref" in schema:
        return fitting(spec, spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return st.one_of([fitting(spec, one) for one in schema["anyOf"]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    least, most = schema.get("minimum"), schema.get("maximum")
    if kind == "integer":
        assert least is not None, schema
        assert most is not None, schema
        whole = st.integers(least, most)
        return whole | whole.map(float).filter(lambda number: least <= number <= most)  # 4.0 is an integer in JSON
    if kind == "number":
        whole = st.integers(math.ceil(least), math.floor(most))
        return st.floats(least, most) | whole
    if kind == "string":
        drawn = st.from_regex(schema["pattern"].removeprefix("^").removesuffix("$"), fullmatch=True, alphabet=LETTERS)
        unwanted = schema.get("not", {"enum": []})["enum"]
        longest = schema.get("maxLength", 1000)
        return drawn.filter(lambda word: len(word) <= longest and word not in unwanted)
    if kind == "array":
        unique = {"unique": True} if schema.get("uniqueItems") else {}
        few = min(schema["maxItems"], max(5, schema.get("minItems", 0)))
        return st.lists(fitting(spec, schema["items"]), min_size=schema.get("minItems", 0), max_size=few, **unique)
    if kind == "object":
        fields = {name: fitting(spec, one) for name, one in schema["properties"].items()}
        needed = {name: fields.pop(name) for name in schema.get("required", [])}
        return st.fixed_dictionaries(needed, optional=fields)
    return {"boolean": st.booleans(), "null": st.none()}[kind]


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    place = tmp_path_factory.mktemp("bodies") / "tasks.db"
    small_task(place, most_open=20_000)
    with api(place) as made:
        yield made


@pytest.fixture(scope="module")
def spec(call):
    return call("GET", "/openapi.json")[1]


def possible(body: dict[str, Any]) -> dict[str, Any]:
    """A task that can be made, with what is left of one that was drawn: most of those contradict themselves."""
    named = {"name": f"task {len(json.dumps(body))}", "sources": SOURCES, "bounds": [-1e100, 1e100], "learner": "me"}
    return body | named | ({"selector": "tsallis-inf"} if body.get("selector") == "informed" else {})


WAYS = {
    "/v1/tasks": "/v1/tasks",
    "/v1/tasks/{task}/episodes": "/v1/tasks/site/episodes",
    "/v1/tasks/{task}/episodes/{number}/return": "/v1/tasks/site/episodes/0/return",
    "/v1/tasks/{task}/returns": "/v1/tasks/site/returns",
}


def body_of(spec: Any, path: str) -> Any:
    return spec["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]


def test_these_are_all_operations_with_a_body(spec):
    assert {path for path, ways in spec["paths"].items() if "requestBody" in ways.get("post", {})} == WAYS.keys()


@pytest.mark.parametrize("path", WAYS)
def test_a_body_that_fits_is_not_refused_as_wrong_and_its_answer_fits(path, call, spec):
    schema, seen = body_of(spec, path), set()
    bodies = fitting(spec, schema)
    if path == "/v1/tasks":
        bodies |= bodies.map(possible)

    @settings(suppress_health_check=list(HealthCheck))
    @given(bodies)
    def check(body: Any) -> None:
        status, answer = call("POST", WAYS[path], body)
        assert status not in WRONG, answer
        assert status < 500, answer
        seen.add(status)
        described = spec["paths"][path]["post"]["responses"][str(status)]["content"]["application/json"]
        assert faults(spec, described["schema"], answer) == []
        json.dumps(answer, allow_nan=False)

    call.ask()
    check()
    assert seen & {200, 201}, seen
    live = spec["paths"]["/v1/live"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    assert faults(spec, of_events(live), call.event()) == []


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/v1/tasks", lambda fields: fields["bounds"]["anyOf"][0].pop("uniqueItems")),
        ("/v1/tasks", lambda fields: fields["learner"].update(pattern="^[a/]+$")),
        ("/v1/tasks/{task}/episodes", lambda fields: fields["count"].update(maximum=2000)),
        ("/v1/tasks/{task}/episodes/{number}/return", lambda fields: fields.update(more={"type": "null"})),
    ],
)
def test_a_schema_that_promises_more_is_found_out(path, change, call, spec):
    """The negative control."""
    changed = json.loads(json.dumps(spec))
    schema = body_of(changed, path)
    if "$ref" in schema:
        schema = changed["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    change(schema["properties"])
    find(
        fitting(changed, schema), lambda body: call("POST", WAYS[path], body)[0] == 422,
        settings=settings(max_examples=2000, suppress_health_check=list(HealthCheck), phases=[Phase.generate]),
    )  # fmt: skip
