"""OpenAPI says what is there: every answer of a running service is as /openapi.json describes it."""

from __future__ import annotations

import http.client
import json
import re
from typing import Any

import pytest
from service_world import SOURCES, api, small_task

from pastmaster import Repository
from pastmaster.domains import windy_corridor
from pastmaster.service import add_token, started

KINDS: dict[str, Any] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None), "array": list,
    "object": dict,
}  # fmt: skip
KNOWN = {
    "$ref", "anyOf", "type", "const", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems",
    "maxItems", "items", "properties", "required", "additionalProperties", "title", "description", "default",
    "examples", "format", "uniqueItems", "not",
}  # fmt: skip


def faults(spec: Any, schema: Any, value: Any, place: str = "") -> list[str]:
    """What of a value is not as its schema says; a field that the schema does not name is a fault too."""
    assert set(schema) <= KNOWN, f"{place}: this test does not know {set(schema) - KNOWN}"
    if "$ref" in schema:
        return faults(spec, spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]], value, place)
    if "anyOf" in schema:
        each = [faults(spec, one, value, place) for one in schema["anyOf"]]
        return [] if [] in each else [f"{place}: none of {each}"]
    kind = schema.get("type")
    fits = kind is None or (isinstance(value, KINDS[kind]) and (kind == "boolean") == isinstance(value, bool))
    if not fits or ("const" in schema and value != schema["const"]) or value not in schema.get("enum", [value]):
        return [f"{place}: {value!r} is not {schema}"]
    found = []
    if "not" in schema and faults(spec, schema["not"], value, place) == []:
        found.append(f"{place}: {value!r} is one that it must not be")
    if kind in ("integer", "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        found.append(f"{place}: {value} is out of range")
    if kind == "string":
        found += [] if re.search(schema.get("pattern", ""), value) else [f"{place}: {value!r} has another form"]
        found += (
            [] if schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1e9) else [f"{place}: length"]
        )
    if kind == "array":
        found += [] if schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1e9) else [f"{place}: length"]
        found += [f"{place}: twice"] if schema.get("uniqueItems") and len(set(value)) < len(value) else []
        found += [fault for i, one in enumerate(value) for fault in faults(spec, schema["items"], one, f"{place}[{i}]")]
    if kind == "object":
        fields = schema["properties"]
        found += [f"{place}.{name} is missing" for name in schema.get("required", []) if name not in value]
        found += [f"{place}.{name} is not named" for name in value if name not in fields]
        found += [
            fault
            for name in fields.keys() & value
            for fault in faults(spec, fields[name], value[name], f"{place}.{name}")
        ]
    return found


def of_events(media: Any) -> Any:
    """The schema of what a media type holds; of a stream of events, of the data of each."""
    return media["schema"] if "schema" in media else media["itemSchema"]["properties"]["data"]["contentSchema"]


def operations(spec: Any) -> list[tuple[str, str, Any]]:
    return [(method, path, one) for path, ways in spec["paths"].items() for method, one in ways.items()]


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    place = tmp_path_factory.mktemp("openapi") / "tasks.db"
    small_task(place)
    with api(place) as made:
        yield made


@pytest.fixture(scope="module")
def spec(call):
    return call("GET", "/openapi.json")[1]


def test_the_walk_finds_what_is_wrong(call, spec):
    """A negative control: each change to a state that fits makes it fit no more."""
    schema, state = {"$ref": "#/components/schemas/TaskState"}, call.state()
    assert faults(spec, schema, state) == []
    for change in (
        {"told": "4"}, {"told": True}, {"told": None}, {"more": 1}, {"arms": [{}]}, {"bounds": [None]},
        {"best": {"arm": 1}}, {"returns": {"width": 1, "all": [None], "learner": []}}, {"name": 7},
    ):  # fmt: skip
        assert faults(spec, schema, state | change) != [], change
    assert faults(spec, schema, {key: one for key, one in state.items() if key != "open"}) == [".open is missing"]
    assert faults(spec, {"$ref": "#/components/schemas/Health"}, {"status": "well"}) != []


def test_every_operation_has_its_role_its_errors_and_its_schemas(spec):
    assert spec["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    names = set()
    for method, path, one in operations(spec):
        place = f"{method} {path}"
        assert one["security"] in ([], *([{"bearer": [role]}] for role in ("read", "decide", "admin"))), place
        assert one["description"], place
        names.add(one["operationId"])
        assert {"401", "403", "429", "500", "503", "default"} <= set(one["responses"]), place
        assert ("404" in one["responses"]) == ("{" in path), place
        assert {"409", "413", "415", "422"} <= set(one["responses"]) or method != "post", place
        assert re.findall(r"{(\w+)}", path) == [p["name"] for p in one["parameters"]], place
        assert all(parameter["schema"]["examples"] for parameter in one["parameters"]), place
        for status, response in one["responses"].items():
            assert response["description"], (place, status)
            if status not in ("200", "201") and path != "/healthz":
                (content,) = response["content"].values()
                assert content["schema"] == {"$ref": "#/components/schemas/ErrorAnswer"}, (place, status)
        if "requestBody" in one:
            schema = one["requestBody"]["content"]["application/json"]["schema"]
            resolved = spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert resolved["additionalProperties"] is False, place
            assert [faults(spec, schema, example) for example in resolved["examples"]] == [[]], place
        else:
            assert method != "post" or path.endswith("/cancel"), place
    assert len(names) == len(operations(spec)) >= 14


def test_every_answer_of_a_running_service_is_as_described(tmp_path):
    place, seen = tmp_path / "tasks.db", set()
    with Repository(place) as repository:
        for task in windy_corridor.family()[::20]:
            repository.add(task)
        repository.keep(k=2, rng=0)
        digest = repository.policy_records()[0].digest
        secret = add_token(repository, "everyone", "admin")
        with started(repository) as url:
            connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=240)

            def send(method: str, path: str, body: Any = None, token: str = secret) -> tuple[int, str, Any]:
                headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
                sent = None if body is None else json.dumps(body)
                connection.request(method, path, sent, headers)
                response = connection.getresponse()
                kind = response.headers["content-type"].partition(";")[0]
                raw = response.readline() if kind == "text/event-stream" else response.read()
                if kind == "text/event-stream":
                    connection.close()
                    return response.status, kind, json.loads(raw.removeprefix(b"data: "))
                return response.status, kind, json.loads(raw) if kind == "application/json" else raw.decode("latin-1")

            spec = send("GET", "/openapi.json")[2]

            def check(method: str, route: str, expected: int, body: Any = None, **path: Any) -> Any:
                status, kind, answer = send(method, route.format(**path), body)
                assert status == expected, (method, route, answer)
                seen.add((method.lower(), route, status))
                described = spec["paths"][route][method.lower()]["responses"][str(status)]["content"][kind]
                assert faults(spec, of_events(described), answer) == [], (method, route)
                return answer

            one, episode = "/v1/tasks/{task}", "/v1/tasks/{task}/episodes/{number}"
            named = {"name": "site", "sources": SOURCES, "bounds": [0, 1], "selector": "tsallis-inf"}
            for body in ({"name": "kept"}, named):
                check("POST", "/v1/tasks", 201, body)
                check("POST", "/v1/tasks", 200, body)
                check("POST", "/v1/tasks", 409, body | {"lease": 1.0})
            check("POST", "/v1/tasks", 422, {"name": "x", "sources": 3})
            check("GET", "/v1/tasks", 200)
            for task, value in (("kept", None), ("site", 0.5)):
                check("GET", one, 200, task=task)  # nothing is told yet
                asked = check("POST", f"{one}/episodes", 200, {"count": 9, "key": "k", "lease": 60}, task=task)
                check("POST", f"{one}/episodes", 409, {"count": 2, "key": "k"}, task=task)
                lower, upper = check("GET", one, 200, task=task)["bounds"]
                value = (lower + upper) / 2
                for number in (0, 1, 1):
                    check("POST", f"{episode}/return", 200, {"value": value}, task=task, number=number)
                check("POST", f"{episode}/return", 409, {"value": upper}, task=task, number=1)
                check("POST", f"{episode}/return", 404, {"value": value}, task=task, number=99)
                for _ in range(2):
                    check("POST", f"{episode}/cancel", 200, task=task, number=2)
                check("POST", f"{episode}/cancel", 409, task=task, number=1)
                many = [{"episode": n, "value": value} for n in (1, 2, 3, 4, 5, 6, 99)]
                check("POST", f"{one}/returns", 200, {"returns": many}, task=task)
                check("POST", f"{one}/returns", 422, {"returns": []}, task=task)
                for number in (0, 2, 8):
                    check("GET", episode, 200, task=task, number=number)
                assert check("GET", one, 200, task=task)["open"] == len(asked["episodes"]) - 7
            check("GET", episode, 422, task="site", number="x")
            check("GET", one, 404, task="none")
            check("GET", "/v1/policies", 200)
            check("GET", "/v1/policies/{digest}", 200, digest=digest)
            check("GET", "/v1/policies/{digest}", 404, digest="0" * 64)
            for route in ("/healthz", "/metrics", "/v1/live"):
                check("GET", route, 200)
            check("DELETE", one, 200, task="site")
            check("DELETE", one, 404, task="site")
            for method, route, _ in operations(spec):
                if route not in ("/healthz",):
                    refused = send(method.upper(), route, None, token="none")
                    assert refused[0] == 401
                    assert faults(spec, {"$ref": "#/components/schemas/ErrorAnswer"}, refused[2]) == []
            connection.close()
    good = {(method, path, int(s)) for method, path, o in operations(spec) for s in o["responses"] if s.startswith("2")}
    assert good <= seen
