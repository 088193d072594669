"""Who is let in, with what, and how often; whatever comes, there is no traceback, and nothing is stored."""

from __future__ import annotations

import json
import random
import re
import signal
import time
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from faults import repetitions
from service_world import Api, Clock, all_rows, api, served, small_task

from pastmaster import Client, InvalidInputError, Repository
from pastmaster.cli import main
from pastmaster.domains import windy_corridor
from pastmaster.errors import PastmasterError, RepositoryError, ServiceError
from pastmaster.service import add_token, list_tokens, revoke_token, serve
from pastmaster.service.gate import Rates

LARGEST_BODY = 2**20
ROLES = ("read", "decide", "admin")


@pytest.fixture
def path(tmp_path):
    small_task(tmp_path / "tasks.db")
    return tmp_path / "tasks.db"


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def described(call: Api, **headers: str) -> dict[tuple[str, str], str | None]:
    """Every way in, and the role that it needs, as OpenAPI lists them."""
    _, spec = call("GET", "/openapi.json", headers=headers)
    found = {}
    for path, ways in spec["paths"].items():
        for method, one in ways.items():
            found[method.upper(), path] = one["security"][0]["bearer"][0] if one["security"] else None
    return found


def real(route: str) -> str:
    """An address that a route has."""
    return route.replace("{task}", "site").replace("{number}", "5").replace("{digest}", "0" * 64)


NEEDED = {
    "GET /healthz": None, "GET /v1/tasks": "read", "GET /v1/live": "read", "GET /v1/policies/{digest}": "read",
    "POST /v1/tasks/{task}/episodes": "decide", "POST /v1/tasks/{task}/returns": "decide",
    "POST /v1/tasks": "admin", "DELETE /v1/tasks/{task}": "admin",
}  # fmt: skip


def test_every_way_in_needs_the_role_that_it_should(path):
    with Repository(path) as repository:
        secrets = {role: add_token(repository, role, role) for role in ROLES}
    with api(path) as call:
        roles = described(call, **bearer(secrets["read"])) | {("GET", "/openapi.json"): "read"}
        assert NEEDED.items() <= {f"{method} {route}": role for (method, route), role in roles.items()}.items()
        for (method, route), needed in roles.items():
            senders = [{}] if "live" in route else [{}, *map(bearer, secrets.values())]  # it would not end
            statuses = [call(method, real(route), {}, headers=headers)[0] for headers in senders]
            if needed is None:
                assert statuses[0] == 200
                continue
            assert statuses[0] == 401
            for role, status in zip(ROLES, statuses[1:], strict=False):
                assert (status == 403) == (ROLES.index(role) < ROLES.index(needed)), (method, route, role, status)
                assert status != 401
        assert len(roles) >= 14


METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"}


def test_a_method_that_a_path_does_not_have_is_a_405_that_names_those_it_has(path):
    with api(path) as call:
        known = described(call)
        ways = {route: {method for method, one in known if one == route} for _, route in known} | {"/": {"GET"}}
        assert ways["/v1/tasks"] == {"GET", "POST"}
        assert ways["/v1/tasks/{task}"] == {"GET", "DELETE"}

        def expect_405(headers):
            for route, own in ways.items():
                for method in METHODS - own:
                    status, answer = call(method, real(route), {}, headers=headers)
                    assert (status, answer["error"]["code"]) == (405, "method"), (method, route, answer)
                    assert set(call.headers["allow"].split(", ")) == own
                    assert f"the method is {method}, must be" in answer["error"]["message"]

        expect_405({})
        expect_405({"content-type": "text/plain"})
        expect_405({"content-length": "9" * 9})
        assert call("PUT", "/nothing")[0] == 404
        with Repository(path) as repository:
            secrets = {role: add_token(repository, role, role) for role in ROLES}
    with api(path) as call:
        for secret in secrets.values():
            expect_405(bearer(secret))
        for method in METHODS - {"GET", "POST"}:
            assert call(method, "/v1/tasks")[0] == 401
            assert call(method, "/v1/tasks", headers=bearer("pm_none"))[0] == 401
        assert call("POST", "/v1/tasks", {}, headers=bearer(secrets["read"]))[0] == 403
        assert call("PUT", "/nothing")[0] == 401
        assert call("PUT", "/nothing", headers=bearer(secrets["read"]))[0] == 404


@pytest.mark.parametrize("secret", ["", "pm_", "pm_" + "A" * 43, "x" * 10_000, "pm_\xff\xfe", "null"])
def test_a_wrong_token_is_refused(path, secret):
    with Repository(path) as repository:
        good = add_token(repository, "one", "admin")
    with api(path) as call:
        for header in (f"Bearer {secret}", secret, f"Basic {good}", f"Bearer {good[:-1]}", f"Bearer {good}x"):
            status, answer = call("GET", "/v1/tasks", headers={"authorization": header})
            assert (status, answer["error"]["code"]) == (401, "no_token")
            assert call.headers["www-authenticate"] == "Bearer"
        assert call("GET", "/v1/tasks", headers={"authorization": f"bearer  {good}"})[0] == 200


def test_a_revoked_token_is_refused_within_a_second_and_its_name_is_not_used_again(path):
    with Repository(path) as repository:
        secret = add_token(repository, "one", "read")
        add_token(repository, "two", "read")
        with api(path) as call:
            assert call("GET", "/v1/tasks", headers=bearer(secret))[0] == 200
            revoke_token(repository, "one")
            began = time.monotonic()
            while call("GET", "/v1/tasks", headers=bearer(secret))[0] != 401:
                assert time.monotonic() < began + 30.0, "a busy machine takes longer than a second, but not so long"
                time.sleep(0.05)
        with pytest.raises(InvalidInputError, match="name is one, must be one that no token has or had"):
            add_token(repository, "one", "read")
        with pytest.raises(InvalidInputError, match="revoke_token: name is none, must be that of a token"):
            revoke_token(repository, "none")
        assert [(one.name, one.revoked) for one in list_tokens(repository)] == [("one", True), ("two", False)]
        revoke_token(repository, "two")
        with api(path) as call:  # where all are revoked, nobody is let in: it is not as if there were none
            assert call("GET", "/v1/tasks")[0] == 401


def test_a_token_is_stored_as_its_hash_alone(path):
    with Repository(path) as repository:
        secret = add_token(repository, "one", "decide")
    (row,) = (row for rows in all_rows(path) for row in rows if "digest" in row._fields)
    assert len(secret) > 40
    assert len(row.digest) == 32
    assert secret.encode() not in path.read_bytes()
    assert secret.removeprefix("pm_").encode() not in path.read_bytes()


def test_without_tokens_only_this_computer_is_served(path):
    with api(path) as call:
        assert call("GET", "/v1/tasks")[0] == 200
        for headers, client in (
            ({"host": "evil.example"}, "127.0.0.1"), ({"host": ""}, "127.0.0.1"), ({}, "10.0.0.7"),
            ({"host": "localhost.evil.example:80"}, "127.0.0.1"),
        ):  # fmt: skip
            status, answer = call("GET", "/v1/tasks", headers=headers, client=client)
            assert (status, answer["error"]["code"]) == (403, "loopback_only")
    with (
        Repository(path) as repository,
        pytest.raises(InvalidInputError, match=r"host is 0\.0\.0\.0, must be 127\.0\.0\.1"),
    ):
        serve(repository, host="0.0.0.0")


@pytest.mark.parametrize(
    ("host", "client"),
    [("127.0.0.2:80", "127.0.0.2"), ("[::1]", "::1"), ("[::1]:8000", "::1"), ("LocalHost", "127.0.0.1")],
)
def test_every_address_of_this_computer_is_served(path, host, client):
    with api(path) as call:
        assert call("GET", "/v1/tasks", headers={"host": host}, client=client)[0] == 200


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host", "Via"])
def test_without_tokens_what_a_proxy_passes_on_is_refused(path, name):
    with api(path) as call:
        status, answer = call("GET", "/v1/tasks", headers={name.lower(): "203.0.113.9"})
        assert (status, answer["error"]["code"]) == (403, "forwarded")
    with Repository(path) as repository:
        secret = add_token(repository, "one", "read")
    with api(path) as call:
        assert call("GET", "/v1/tasks", headers={name.lower(): "203.0.113.9"} | bearer(secret))[0] == 200


def test_without_tokens_a_page_of_another_site_changes_nothing_and_reads_nothing(path):
    """A browser sends such a request without asking first, if it is one that a form could send."""
    ask = "/v1/tasks/site/episodes"
    with api(path) as call:
        for headers in (
            {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://localhost:3000"},
            {"origin": "https://localhost:8000"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
            {"origin": "http://localhost:8000", "sec-fetch-site": "cross-site"},
        ):  # fmt: skip
            for method, way in (("POST", ask), ("POST", f"{ask}/0/cancel"), ("DELETE", "/v1/tasks/site")):
                status, answer = call(method, way, headers=headers)
                assert (status, answer["error"]["code"]) == (403, "other_site"), (method, way, headers)
            for way in ("/v1/tasks", "/v1/tasks/site", "/v1/live", "/metrics", "/openapi.json", "/v1/policies"):
                for method in ("GET", "HEAD"):
                    status, answer = call(method, way, headers=headers)
                    assert status == 403, (method, way, headers)
            for way in ("/", "/page.js", "/page.css", "/healthz"):  # a link may lead to the page; it tells nothing
                assert call("GET", way, headers=headers)[0] == 200
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):  # a form always has one
            for way in (ask, f"{ask}/0/cancel"):
                status, answer = call("POST", way, raw=b"", headers={"content-type": kind})
                assert (status, answer["error"]["code"]) == (415, "not_json")
        assert call.state()["asked"] == 0
        for headers in (
            {"origin": "http://localhost:8000", "sec-fetch-site": "same-origin"},
            {"sec-fetch-site": "none"},
        ):
            assert call("POST", ask, headers=headers)[0] == 200
            assert call("GET", "/v1/tasks/site", headers=headers)[0] == 200


def test_while_the_tokens_cannot_be_read_nobody_who_needs_one_is_let_in(path, monkeypatch):
    """One that is good may have been revoked. What needs no token goes on."""
    with Repository(path) as repository:
        secret = add_token(repository, "one", "read")
    with api(path) as call:
        keys, clock = call.service.gate.keys, Clock()
        keys.clock = clock
        call.learn_tokens()
        clock.now += 9.0
        assert call("GET", "/v1/tasks", headers=bearer(secret))[0] == 200
        monkeypatch.setattr(keys, "refresh", lambda: None)  # nothing comes of it
        clock.now += 2.0
        for headers in ({}, bearer(secret)):
            status, answer = call("GET", "/v1/tasks", headers=headers)
            assert (status, answer["error"]["code"]) == (503, "unavailable")
        assert call("GET", "/healthz") == (200, {"status": "ok"})
        assert call("GET", "/")[0] == 200
        monkeypatch.undo()
        call.learn_tokens()
        assert call("GET", "/v1/tasks", headers=bearer(secret))[0] == 200


def test_what_is_too_large_or_not_json_is_refused(path):
    with api(path) as call:
        ask = "/v1/tasks/site/episodes"
        for raw, headers, expected in (
            (b"x" * (LARGEST_BODY + 1), {}, 413),
            (b"{}", {"content-length": "9" * 30}, 413),
            (b"{}", {"content-length": "-1"}, 413),
            (b"{}", {"content-type": "text/plain"}, 415),
            (b"{}", {"content-type": "application/x-www-form-urlencoded"}, 415),
            (b"{", {}, 422), (b"[" * 100_000, {}, 422), (b"\xff\xfe", {}, 422), (b"1" * 10_000, {}, 422),
            (b'{"count": 1001}', {}, 422), (b'{"count": true}', {}, 422), (b'{"count": 1.5}', {}, 422),
            (b'{"key": "a b"}', {}, 422), (b'{"key": "\\ud800"}', {}, 422), (b'{"lease": 1e999}', {}, 422),
            (b'{"unknown": 1}', {}, 422), (b"null", {}, 422), (b"", {}, 200),
        ):  # fmt: skip
            status, answer = call("POST", ask, raw=raw, headers=headers)
            assert status == expected, (raw[:40], headers, answer)
        for value in ("NaN", "Infinity", "-Infinity", "1e400", '"1"', "true", "null", "[]", "{}"):
            assert call("POST", f"{ask}/0/return", raw=f'{{"value": {value}}}'.encode())[0] == 422, value
        for number in ("-1", "1.5", "x", "9" * 30, "%00", "0x1", "0.0", "+0", " 0", "0_0", "\u0660"):
            assert call("POST", f"{ask}/{number}/return", {"value": 0.5})[0] in (404, 422), number
            assert call("POST", f"{ask}/{number}/cancel")[0] in (404, 422), number
            assert call("GET", f"{ask}/{number}")[0] in (404, 422), number
        for name in ("\0", "x" * 5000, "\ud800", "no", "site\0"):
            assert call("POST", f"/v1/tasks/{name}/episodes")[0] == 404
            assert call("DELETE", f"/v1/tasks/{name}")[0] == 404
        assert call.state()["asked"] == 1


def test_what_is_wrong_with_the_database_is_for_the_log_alone(path, monkeypatch, caplog):
    """Its path and its address are nobody's business, whatever is asked, and by whatever way it fails."""
    digest = "0" * 64
    with api(path) as call:
        assert call("GET", "/v1/tasks")[0] == 200
        place = call.repository.place
        words = f"the database at {place} does not answer: connection to 10.1.2.3 failed"

        def away(*_: object, **__: object) -> None:
            raise RepositoryError(words)

        for name in ("read", "write", "snapshot"):
            for database in (call.repository.database, call.service.live.database):
                monkeypatch.setattr(database, name, away)
        monkeypatch.setattr(call.repository, "policy_records", away)
        body = {"name": "more", "sources": ["a"], "bounds": [0, 1]}
        for method, way, sent in (
            ("GET", "/v1/tasks", None), ("GET", "/v1/tasks/site", None), ("GET", "/v1/policies", None),
            ("GET", f"/v1/policies/{digest}", None), ("POST", "/v1/tasks", body), ("DELETE", "/v1/tasks/site", None),
            ("POST", "/v1/tasks/site/episodes", None), ("POST", "/v1/tasks/site/episodes/0/return", {"value": 0}),
            ("POST", "/v1/tasks/site/returns", {"returns": [{"episode": 0, "value": 0}]}),
            ("POST", "/v1/tasks/site/episodes/0/cancel", None), ("GET", "/v1/tasks/site/episodes/0", None),
        ):  # fmt: skip
            caplog.clear()
            status, answer = call(method, way, sent)
            assert (status, answer["error"]["code"]) == (503, "unavailable"), (method, way, answer)
            assert answer["error"]["message"] == "serve: the database does not answer, try again later"
            assert call.headers["retry-after"] == "1"
            logged = [str(record.fields.get("error", record.exc_info)) for record in caplog.records]
            assert any(words in one for one in logged), (method, way, logged)
        assert call.event() == {"error": "serve: the database does not answer, try again later"}
        monkeypatch.undo()


def test_a_large_body_of_unknown_fields_costs_little_more_than_its_json(path):
    """It holds up all other requests while it is read."""
    many = ",".join(f'"a{i}": 1' for i in range(75_000))
    item = ",".join(f'"a{i}": 1' for i in range(90))
    items = ",".join(f'{{"episode": 1, "value": 1, {item}}}' for _ in range(1000))
    raw = {"fields": f"{{{many}}}".encode(), "items": f'{{"returns": [{items}]}}'.encode()}
    assert all(0.7 * LARGEST_BODY < len(body) < LARGEST_BODY for body in raw.values())

    def seconds(work: Callable[[], object]) -> float:
        times = []
        for _ in range(3):
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
        return min(times)

    with api(path) as call:
        for way, body in (
            ("/v1/tasks", "fields"), ("/v1/tasks/site/episodes", "fields"), ("/v1/tasks/site/returns", "items"),
            ("/v1/tasks/site/episodes/0/return", "fields"), ("/v1/tasks/site/returns", "fields"),
        ):  # fmt: skip
            status, answer = call("POST", way, raw=raw[body])
            assert status == 422
            assert "is wrong: it has a field a0, must be of" in answer["error"]["message"]
            took = seconds(lambda way=way, body=body: call("POST", way, raw=raw[body]))
            parsed = seconds(lambda body=body: json.loads(raw[body]))
            assert took < 5.0 * parsed + 0.02, (way, body, took, parsed)


PYTHON = re.compile(r"clip=|True|False|None|Error\b|\w+\(|\brng\b|n_sources|\bself\b|dict|tuple|instance")


def test_errors_speak_of_requests_not_of_python(path):
    ask = "/v1/tasks/site/episodes"
    named = {"name": "a", "sources": ["x"], "bounds": [0, 1]}
    with api(path) as call:
        call.ask()
        status, answer = call.tell(0, 7.0)
        assert (status, answer["error"]["code"]) == (409, "out_of_bounds")
        assert answer["error"]["message"] == (
            "tell: value is 7 for episode 0, must be within the bounds 0 .. 1 of site: make a task with wider bounds, "
            'or one with "clip": true, if such returns are right'
        )
        status, answer = call("POST", "/v1/tasks/site/returns", {"returns": [{"episode": 0, "value": -1}]})
        assert answer["returns"][0]["error"]["code"] == "out_of_bounds"
        _, spec = call("GET", "/openapi.json")
        fields = {"/v1/tasks": spec["components"]["schemas"]["TaskBody"]["properties"]}
        fields["/v1/tasks/{task}/episodes"] = spec["components"]["schemas"]["AskBody"]["properties"]
        odd = [None, True, "x", 1.5, -1, 0, [], [1.5], {}, 1e99, [None], ["a", 1], ["", ""], "\0"]
        bodies = [("/v1/tasks", named | {name: value}) for name in fields["/v1/tasks"] for value in odd]
        bodies += [("/v1/tasks", value) for value in odd]
        bodies += [(ask, {name: value}) for name in fields["/v1/tasks/{task}/episodes"] for value in odd]
        bodies += [(f"{ask}/0/return", {"value": value}) for value in odd if not isinstance(value, int)]
        bodies += [("/v1/tasks/site/returns", {"returns": value}) for value in odd]
        for k, (way, body) in enumerate(bodies):
            if way == "/v1/tasks" and isinstance(body, dict) and body.get("name") == "a":
                body = body | {"name": f"a{k}"}
            status, answer = call("POST", way, body)
            words = answer.get("error", {}).get("message", "")
            assert status < 500, (way, body, words)
            assert not PYTHON.search(words), (way, body, words)


def test_what_has_no_body_needs_no_content_type(path):
    with api(path) as call:
        ask = "/v1/tasks/site/episodes"
        untyped = {"content-type": ""}
        assert call("POST", ask, headers=untyped)[0] == 200
        assert call("POST", f"{ask}/0/cancel", headers=untyped)[0] == 200
        for way in ("/v1/tasks", f"{ask}/0/return", "/v1/tasks/site/returns"):
            assert call("POST", way, headers=untyped)[0] == 422, way
        status, answer = call("POST", ask, {}, headers=untyped)
        assert status == 415
        assert answer["error"]["message"] == "serve: the content type is missing, must be application/json"
        status, answer = call("POST", ask, {}, headers={"content-type": "Text/\x1bPlain; charset=utf-8"})
        assert status == 415
        assert answer["error"]["message"].startswith("serve: the content type is text/\\x1bplain, must be")


def test_a_sender_that_asks_too_often_is_slowed_down(path):
    clock = Clock()

    def allowed(rates: Rates, sender: str) -> bool:
        try:
            rates.check(sender)
        except PastmasterError:
            return False
        return True

    rates = Rates(5.0, clock)
    assert [allowed(rates, "a") for _ in range(12)] == [True] * 10 + [False] * 2
    assert allowed(rates, "b")
    clock.now = 1.0
    assert [allowed(rates, "a") for _ in range(7)] == [True] * 5 + [False] * 2
    rates = Rates(0.25, clock)  # fewer than one at once would be none
    assert [allowed(rates, "a"), allowed(rates, "a")] == [True, False]
    clock.now += 4.0
    assert allowed(rates, "a")
    with api(path, rate=1.0) as call:
        statuses = [call("GET", "/v1/tasks")[0] for _ in range(5)]
        assert statuses[:2] == [200, 200]
        assert 429 in statuses
        assert call.headers["retry-after"] == "1"


def test_answers_carry_the_headers_that_pages_need(path):
    with api(path) as call:
        for way in ("/", "/healthz", "/nothing"):
            call("GET", way)
            assert "default-src 'none'" in call.headers["content-security-policy"]
            assert call.headers["x-content-type-options"] == "nosniff"
            assert call.headers["x-frame-options"] == "DENY"


WORDS = [
    "site", "v1", "tasks", "episodes", "return", "returns", "cancel", "policies", "live", "..", "", "%2e%2e", "0", "1",
    "-1", "9" * 25, "\0", "\ud800", "é", "<script>", "'; DROP TABLE tasks; --", "a" * 300, "healthz", "metrics",
    "{task}", "__class__", "/etc/passwd", "file:///etc/passwd", "os.system", "CartPole-v1", "gymnasium:CartPole-v1",
    "0" * 64,
]  # fmt: skip
ODD = [
    None, True, False, 0, 1, -1, 1.5, 10**30, 1e308, "", "x", "\0", "\ud800", "kept", [], [[]], {}, [None], ["a", "a"],
    [1, "a"], {"value": 1}, "a" * 2000, [0.0] * 50, {"__class__": "x"}, "gASVBQAAAAAAAABdlC4=", -0.0, [1, 0],
    [float("nan"), 1],
]  # fmt: skip
FIELDS = [
    "value", "count", "key", "lease", "returns", "episode", "name", "sources", "selector", "bounds", "seed", "learner",
    "expired_return", "most_open", "clip", "episodes", "path", "env_id", "module", "__proto__",
]  # fmt: skip


def malformed(draw: random.Random) -> tuple[str, str, bytes, dict[str, str]]:
    """A request that nobody should send."""
    method = draw.choice(
        ["GET", "POST", "POST", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "X" * 50]
    )
    known = ["/v1/tasks/site/episodes", "/v1/tasks/site/episodes/77/return", "/v1/tasks/site/returns", "/v1/tasks"]
    path = draw.choice(known) if draw.random() < 0.5 else "/" + "/".join(draw.choices(WORDS, k=draw.randint(0, 6)))
    if (method, path) in (("POST", known[0]), ("DELETE", "/v1/tasks/site"), ("GET", "/v1/live")):  # nothing is wrong
        method = "PUT"
    body = {draw.choice(FIELDS): draw.choice(ODD) for _ in range(draw.randint(0, 4))}
    raw = json.dumps(draw.choice([body, [body], *ODD]) if draw.random() < 0.3 else body).encode()
    if draw.random() < 0.3:
        cut = draw.randrange(len(raw) + 1)
        raw = raw[:cut] + bytes(draw.choices(range(256), k=draw.randint(0, 8))) + raw[cut:]
    headers = {}
    if draw.random() < 0.2:
        name = draw.choice(["content-type", "content-length", "authorization", "host", "expect", "x-forwarded-for"])
        headers = {name: draw.choice(["", "x" * 3000, "application/json; charset=utf-7", "Bearer ", "0", "localhost"])}
    return method, path, raw, headers


@pytest.mark.repeated
def test_malformed_requests_do_no_harm(path, seed, attempts, caplog):
    tally = attempts("malformed requests to the service", "no answer of 500, no traceback, nothing stored")
    draw, stored = random.Random(seed), all_rows(path)
    with api(path, rate=1e9) as call:
        for _ in range(repetitions(100_000, 3_000)):
            method, way, raw, headers = malformed(draw)
            with tally.attempt(f"{method} {way!r} {raw[:80]!r} {headers}"):
                status, answer = call(method, way, raw=raw, headers=headers)
                assert status < 500, (status, answer)
                assert b"Traceback" not in (answer if isinstance(answer, bytes) else json.dumps(answer).encode())
                assert status < 300 or set(answer or {"error": 0}) == {"error"}, answer
                made = status == 201
                assert not made, "a task was made"
        assert call.state()["asked"] == 0
    assert all_rows(path) == stored
    assert not [record for record in caplog.records if record.exc_info]


def test_the_command_makes_lists_and_revokes_tokens_and_serves_with_them(tmp_path):
    path = tmp_path / "tasks.db"

    def command(*words: str) -> str:
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
        return done.output.strip()

    with Repository(path) as repository:
        for task in windy_corridor.family()[::20]:
            repository.add(task)
        repository.keep(k=2, rng=0)
    secret = command("token", "add", str(path), "robots", "--role", "decide")
    assert command("token", "list", str(path)) == "robots: decide"
    with served(path, "--task", "kept", "--lease", "60") as running, Client(running.url, secret) as client:
        with client.episode("kept") as episode:
            assert 59.0 < episode.lease <= 60.0
            episode.value = 0.5
        with pytest.raises(ServiceError, match="the token robots is for decide, must be for admin") as caught:
            client.make_task("other", sources=["a"], bounds=[0, 1])
        assert (caught.value.status, caught.value.code) == (403, "role")
        with Client(running.url, patience=0) as stranger, pytest.raises(ServiceError, match="token is missing"):
            stranger.tasks()
        assert command("token", "revoke", str(path), "robots") == "revoked: robots"
        log = running.kill(signal.SIGTERM)
        assert running.process.returncode == 0
    first = json.loads(log.splitlines()[0])
    assert (first["event"], first["tokens"]) == ("serving", "1 tokens")
    assert secret.encode() not in log
    assert sorted(file.name for file in tmp_path.iterdir()) == ["tasks.db", "tasks.service.db"]  # without a log
    revoked = [{"name": "robots", "role": "decide", "revoked": True}]
    assert json.loads(command("token", "list", str(path), "--json")) == revoked
    with Repository(path) as repository, pytest.raises(InvalidInputError, match="while there are no good tokens"):
        serve(repository, host="0.0.0.0")
