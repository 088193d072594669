"""What people and programs see of the service: figures, health, the log, the history of a task."""

from __future__ import annotations

import json
import logging
import sys

import numpy as np
import pytest
from seams import service_store
from service_world import api, small_task

from pastmaster import InvalidInputError, Repository
from pastmaster.service import serve
from pastmaster.service.history import STEPS, History
from pastmaster.service.logs import JsonFormatter
from pastmaster.values import Bounds


@pytest.fixture
def path(tmp_path):
    small_task(tmp_path / "tasks.db")
    return tmp_path / "tasks.db"


def test_figures_for_prometheus_and_health(path):
    with api(path) as call:
        call.ask()
        call.tell(0, 0.5)
        call.tell(0, 0.25)
        status, text = call("GET", "/metrics")
        assert status == 200
        lines = dict(line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#"))
        assert lines['pastmaster_requests_total{method="POST",status="200"}'] == "2.0"
        assert lines['pastmaster_requests_total{method="POST",status="409"}'] == "1.0"
        assert float(lines["pastmaster_operations_total"]) == 3.0
        assert float(lines["pastmaster_commit_seconds_count"]) == 3.0
        assert call("GET", "/healthz") == (200, {"status": "ok"})
        call.service.engine.failure = "the disk is full"
        assert call("GET", "/healthz") == (503, {"status": "failing"})


def test_a_fault_of_ours_is_a_sentence_outside_and_a_traceback_in_the_log(path, monkeypatch, caplog):
    with api(path) as call:
        monkeypatch.setattr(service_store, "task_rows", lambda *_, **__: 1 / 0)
        status, answer = call("POST", "/v1/tasks/site/episodes")
    assert (status, answer) == (
        500, {"error": {"code": "fault", "message": "serve: this is a fault of the service"}},
    )  # fmt: skip
    (record,) = [record for record in caplog.records if record.exc_info]
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert "ZeroDivisionError" in json.loads(line)["error"]


def test_the_log_is_json_in_ascii_on_one_line():
    record = logging.makeLogRecord({"msg": "made\n\x1b[2J", "levelname": "INFO", "fields": {"task": "é\u2028\n"}})
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["task"] == "é\u2028\n"


def test_a_history_keeps_its_sums_and_stays_small():
    history, rng = History(3), np.random.default_rng(0)
    told = [(int(rng.integers(3)), float(rng.random())) for _ in range(5000)]
    for k, (arm, payoff) in enumerate(told):
        history.tell(arm, payoff)
        if k % 7 == 0:
            history.expire(arm)
    assert len(history.steps) <= STEPS
    assert sum(step[0] for step in history.steps) == 5000
    assert sum(step[1] for step in history.steps) == pytest.approx(sum(payoff for _, payoff in told))
    assert sum(step[2] for step in history.steps) == sum(arm == 2 for arm, _ in told)
    assert {step[0] for step in history.steps[:-1]} == {history.width}
    assert sum(step[4] for step in history.steps) == history.expired.sum() == len(told[::7])
    assert history.expired[2] == sum(arm == 2 for arm, _ in told[::7])
    again = History.from_dict(json.loads(json.dumps(history.to_dict())))
    assert again.to_dict() == history.to_dict()


def test_intervals_hold_the_means_nearly_always():
    """Of 200 tasks with three arms, at all of ten looks at each: at most 5% may miss, and far fewer do."""
    rng, missed, means = np.random.default_rng(0), 0, np.array([0.1, 0.5, 0.8])
    for _ in range(200):
        history, wrong = History(3), False
        for look in range(10):
            for arm, mean in enumerate(means):
                for payoff in rng.random(2**look // 8 + 1) < mean:
                    history.tell(arm, float(payoff))
            lower, _, upper = history.intervals(Bounds(0.0, 1.0))
            wrong |= bool(((lower > means) | (upper < means)).any())
        missed += wrong
    assert missed <= 10
    assert (upper - lower < 0.6).all()
    lower, _, upper = history.intervals(Bounds(-2.0, 2.0))
    assert ((lower >= -2.0) & (upper <= 2.0)).all()


@pytest.mark.parametrize("package", ["uvicorn", "pydantic", "httptools", "prometheus_client"])
def test_without_the_extra_an_error_says_what_to_install(path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with Repository(path) as repository, pytest.raises(InvalidInputError, match=r"pip install 'pastmaster\[serve\]'"):
        serve(repository, port=0)
