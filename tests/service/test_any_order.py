"""Any order of asks, tells, repeats, cancels, expiries and restarts leaves the state of a model, the library's.

So does making the same task again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from faults import repetitions
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from seams import service_store
from service_world import SOURCES, Api, Clock, selector_state, small_task

from pastmaster import TsallisINF
from pastmaster.reuse import Episode

pytestmark = [pytest.mark.repeated, pytest.mark.long(10)]
LEASE = 10.0
VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0])


class Visitors(RuleBasedStateMachine):
    """Requests on one side, the selector and a table of episodes on the other."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="pastmaster")
        self.place = Path(self.folder.name) / "tasks.db"
        small_task(self.place, lease=LEASE)
        self.clock = Clock()
        self.call = Api(self.place, self.clock)
        self.plain = TsallisINF(3, bounds=(0.0, 1.0), rng=7)
        self.now = self.written = 0.0  # the task's time; the time of the last change
        self.arms: list[int] = []
        self.outcomes: list[tuple[str, float | None]] = []
        self.deadlines: list[float] = []
        self.keys: dict[str, list[int]] = {}

    def teardown(self) -> None:
        self.call.close()
        self.folder.cleanup()

    @rule(count=st.integers(1, 3), key=st.sampled_from([None, "a", "b", "c", "d"]), lease=st.sampled_from([None, 3.0]))
    def ask(self, count, key, lease):
        body = {"count": count} | ({} if key is None else {"key": key}) | ({} if lease is None else {"lease": lease})
        status, answer = self.call("POST", "/v1/tasks/site/episodes", body)
        known = self.keys.get(key) if key else None
        if known is not None and len(known) != count:
            assert status == 409
            return
        if known is None:
            known = []
            for _ in range(count):
                episode = self.plain.ask()
                known.append(episode.number)
                self.arms.append(episode.arm)
                self.outcomes.append(("open", None))
                self.deadlines.append(self.now + (lease or LEASE))
            self.written = self.now
            if key:
                self.keys[key] = known
        assert status == 200
        assert [(one["number"], one["arm"]) for one in answer["episodes"]] == [(n, self.arms[n]) for n in known]

    @precondition(lambda self: self.arms)
    @rule(data=st.data(), value=VALUES)
    def tell(self, data, value):
        number = data.draw(st.integers(0, len(self.arms)))
        self._expect(number, value, *self.call.tell(number, value))

    @precondition(lambda self: self.arms)
    @rule(data=st.data())
    def tell_many(self, data):
        numbers = data.draw(st.lists(st.integers(0, len(self.arms)), min_size=1, max_size=5))
        returns = [{"episode": number, "value": data.draw(VALUES)} for number in numbers]
        status, answer = self.call("POST", "/v1/tasks/site/returns", {"returns": returns})
        assert status == 200
        for sent, got in zip(returns, answer["returns"], strict=True):
            code = {"no_episode": 404}.get(got["error"]["code"], 409) if "error" in got else 200
            self._expect(sent["episode"], sent["value"], code, got)

    def _expect(self, number, value, status, answer):
        if number == len(self.arms):
            assert status == 404
            return
        outcome, told = self.outcomes[number]
        if outcome == "open":
            assert (status, answer["repeated"]) == (200, False)
            self.plain.tell(Episode(self.arms[number], number), value)
            self.outcomes[number] = ("told", value)
            self.written = self.now
        elif (outcome, told) == ("told", value):
            assert (status, answer["repeated"]) == (200, True)
        else:
            assert status == 409

    @precondition(lambda self: self.arms)
    @rule(data=st.data())
    def cancel(self, data):
        number = data.draw(st.integers(0, len(self.arms)))
        status, _ = self.call("POST", f"/v1/tasks/site/episodes/{number}/cancel")
        if number == len(self.arms):
            assert status == 404
        elif self.outcomes[number][0] == "open":
            assert status == 200
            self.plain.cancel(Episode(self.arms[number], number))
            self.outcomes[number] = ("cancelled", None)
            self.written = self.now
        else:
            assert status == (409 if self.outcomes[number][0] == "told" else 200)

    @rule(other=st.sampled_from([{}, {"clip": False}, {"seed": 8}, {"lease": 11.0}, {"sources": ["left"]}]))
    def make_again(self, other):
        wanted = {"sources": SOURCES, "bounds": [0, 1], "seed": 7, "selector": "tsallis-inf", "lease": LEASE}
        status, answer = self.call("POST", "/v1/tasks", {"name": "site"} | wanted | other)
        assert status == (200 if wanted == wanted | other or "clip" in other else 409)
        assert status == 409 or answer["asked"] == len(self.arms)
        assert self.call("GET", "/v1/tasks") == (200, {"tasks": ["site"]})

    @rule(seconds=st.sampled_from([0.5, 2.0, 6.0]))
    def wait(self, seconds):
        self.call.state()  # whoever serves a task counts its time from when it first looks at it
        self.clock.now += seconds
        self.now += seconds
        self.call.service.engine.sweep()
        late = [
            n for n, (outcome, _) in enumerate(self.outcomes) if outcome == "open" and self.deadlines[n] <= self.now
        ]
        for number in sorted(late, key=lambda n: (self.deadlines[n], n)):
            self.plain.cancel(Episode(self.arms[number], number))
            self.outcomes[number] = ("expired", None)
            self.written = self.now

    @rule()
    def restart(self):
        self.call.close()
        self.clock.now = 0.0
        self.now = self.written
        self.call = Api(self.place, self.clock)

    @invariant()
    def the_state_is_the_models(self):
        state, outcomes = self.call.state(), [outcome for outcome, _ in self.outcomes]
        assert (state["asked"], state["told"], state["open"]) == (len(self.arms), self.plain.n_told, self.plain.n_open)
        assert (state["cancelled"], state["expired"]) == (outcomes.count("cancelled"), outcomes.count("expired"))
        assert selector_state(self.call.service.engine) == self.plain.to_dict()


def test_any_order_of_calls_leaves_the_models_state(monkeypatch):
    monkeypatch.setattr(service_store, "SNAPSHOT_EVERY", 7)
    steps = settings(max_examples=repetitions(150, 4), stateful_step_count=25, deadline=None)
    run_state_machine_as_test(Visitors, settings=steps)
