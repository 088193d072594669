"""The service decides as the library's selectors do, call for call, whatever is restarted between the calls."""

from __future__ import annotations

import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from seams import Ask, Cancel, Describe, Expire, Refused, Tell, service_store
from service_world import SOURCES, Clock, all_rows, alter, api, engine, selector_state, small_task

from pastmaster import DamagedError, Repository
from pastmaster.domains import windy_corridor
from pastmaster.reuse import SELECTORS, Episode
from pastmaster.service import make_task


def library(name: str, n_sources: int = 3, **settings):
    return SELECTORS[name](n_sources, 500, bounds=(0.0, 1.0), rng=7, **settings)


@pytest.mark.parametrize("name", ["regret-balancing", "exp3-transfer", "tsallis-inf"])
def test_decisions_are_the_librarys_call_for_call(path, name, monkeypatch):
    monkeypatch.setattr(service_store, "SNAPSHOT_EVERY", 37)
    small_task(path, selector=name, episodes=500)
    plain, draw, opened = library(name), random.Random(5), []
    for _ in range(3):  # each time a process of its own
        with engine(path) as served:
            for _ in range(40):
                move = draw.random()
                if move < 0.5 or not opened:
                    episode = plain.ask()
                    (answer,) = served.call(Ask("site"))["episodes"]
                    assert (answer["arm"], answer["number"]) == tuple(episode)
                    assert answer["name"] == [*SOURCES, "learner"][episode.arm]
                    opened.append(episode)
                    continue
                episode = opened.pop(draw.randrange(len(opened)))
                if move < 0.9:
                    value = draw.random()
                    plain.tell(episode, value)
                    served.call(Tell("site", episode.number, value))
                else:
                    plain.cancel(episode)
                    served.call(Cancel("site", episode.number))
            assert selector_state(served) == plain.to_dict()


def test_the_kept_policies_and_their_worth_come_from_the_repository(tmp_path):
    *old, _ = windy_corridor.family()[::15]
    with Repository(tmp_path / "tasks.db") as repository:
        for task in old:
            repository.add(task)
        kept = repository.keep(k=3)
        make_task(repository, "new", seed=7)
        known, bounds = repository.experience(), repository.return_bounds()
        records = repository.policy_records(repository.source_ids())
        with engine(tmp_path / "tasks.db") as served:
            state = served.call(Describe("new"))
            assert state["selector"] == "informed"
            assert [arm["name"] for arm in state["arms"]] == [*kept.policies, "learner"]
            assert [arm["policy"] for arm in state["arms"]] == [*(record.digest for record in records), None]
            plain = SELECTORS["informed"](3, bounds=bounds, experience=known, rng=7)
            for number in range(12):
                arm = plain.ask().arm
                assert served.call(Ask("new"))["episodes"][0]["arm"] == arm
                value = bounds.lower + bounds.span * number / 12
                plain.tell(Episode(arm, number), value)
                served.call(Tell("new", number, value))


def test_an_ask_with_the_same_key_gets_the_same_episodes(place):
    small_task(place)
    with engine(place) as served:
        first = served.call(Ask("site", 3, "a"))["episodes"]
        served.call(Tell("site", 1, 0.5))
        again = served.call(Ask("site", 3, "a"))["episodes"]
        assert [one["number"] for one in first] == [one["number"] for one in again] == [0, 1, 2]
        assert [one["arm"] for one in first] == [one["arm"] for one in again]
        with pytest.raises(Refused, match="asked for 3") as caught:
            served.call(Ask("site", 2, "a"))
        assert caught.value.status == 409
    with engine(place) as served:
        assert [one["number"] for one in served.call(Ask("site", 3, "a"))["episodes"]] == [0, 1, 2]
        assert served.call(Ask("site", 1, "b"))["episodes"][0]["number"] == 3


def test_a_return_told_twice_counts_once_and_another_is_a_conflict(path):
    small_task(path)
    for _ in range(2):
        with engine(path) as served:
            if not served.call(Describe("site"))["asked"]:
                served.call(Ask("site"))
                assert served.call(Tell("site", 0, 0.25))["repeated"] is False
            assert served.call(Tell("site", 0, 0.25))["repeated"] is True
            with pytest.raises(Refused, match=r"value is 0\.5 for episode 0, which was told 0\.25 before") as caught:
                served.call(Tell("site", 0, 0.5))
            assert (caught.value.status, caught.value.code) == (409, "conflict")
            with pytest.raises(Refused, match=r"was told 0\.25, must be open"):
                served.call(Cancel("site", 0))
            assert served.call(Describe("site"))["told"] == 1


def test_a_lease_that_is_over_ends_the_episode_and_its_return_is_refused(place):
    clock = Clock()
    small_task(place, lease=10.0)
    with engine(place, clock=clock) as served:
        served.call(Ask("site"))
        served.call(Ask("site", lease=30.0))
        clock.now = 9.0
        assert served.call(Expire("site")) == 0
        clock.now = 11.0
        served.sweep()
        state = served.call(Describe("site"))
        assert (state["open"], state["expired"], state["told"]) == (1, 1, 0)
        assert "cancelled or expired" in state["guarantee"]["statement"]
        with pytest.raises(Refused, match="episode 0 is expired, must be open: its return is not counted") as caught:
            served.call(Tell("site", 0, 0.5))
        assert (caught.value.status, caught.value.code) == (409, "expired")
        assert served.call(Cancel("site", 0))["outcome"] == "expired"
        assert served.call(Tell("site", 1, 0.5))["repeated"] is False
    plain = library("tsallis-inf")
    first, second = plain.ask(), plain.ask()
    plain.cancel(first)
    plain.tell(second, 0.5)
    with engine(place) as served:
        assert served.call(Ask("site"))["episodes"][0]["arm"] == plain.ask().arm


def test_an_expired_episode_counts_as_the_return_declared_for_it(path):
    clock = Clock()
    small_task(path, lease=10.0, expired_return=0.0)
    with engine(path, clock=clock) as served:
        arm = served.call(Ask("site"))["episodes"][0]["arm"]
        clock.now = 10.0
        served.sweep()
        state = served.call(Describe("site"))
        assert (state["told"], state["expired"], state["arms"][arm]["mean"]) == (0, 1, 0.0)
        assert "expired" not in state["guarantee"]["statement"]


@pytest.mark.parametrize("declared", [None, 0.25])
def test_told_and_expired_mean_the_same_whether_a_return_is_declared_or_not(path, declared):
    clock = Clock()
    small_task(path, lease=10.0, expired_return=declared)
    with engine(path, clock=clock) as served:
        episodes = served.call(Ask("site", count=10))["episodes"]
        for episode in episodes[:6]:
            served.call(Tell("site", episode["number"], 0.5))
        served.call(Cancel("site", 6))
        clock.now = 10.0
        served.sweep()
        served.call(Ask("site", count=2))
        state = served.call(Describe("site"))
    assert [state[name] for name in ("asked", "told", "open", "expired", "cancelled")] == [12, 6, 2, 3, 1]
    for arm, found in enumerate(state["arms"]):
        assert found["told"] == sum(episode["arm"] == arm for episode in episodes[:6])
        assert found["expired"] == sum(episode["arm"] == arm for episode in episodes[7:])
    assert sum(state["returns"]["expired"]) == 3
    assert state["returns"]["all"] == [0.5] * 6 + ([] if declared is None else [declared] * 3)


def test_what_expired_before_the_first_return_is_told_of_a_step_without_one(path):
    clock = Clock()
    small_task(path, lease=10.0)
    with engine(path, clock=clock) as served:
        served.call(Ask("site", count=3))
        clock.now = 10.0
        served.sweep()
        returns = served.call(Describe("site"))["returns"]
        assert (returns["all"], returns["learner"], returns["expired"]) == ([None], [None], [3])
        served.call(Ask("site"))
        served.call(Tell("site", 3, 0.5))
        returns = served.call(Describe("site"))["returns"]
        assert (returns["all"], returns["expired"]) == ([0.5], [3])


def test_neither_a_clock_that_is_set_nor_a_time_without_service_ends_a_lease(path, monkeypatch):
    small_task(path, lease=10.0)
    clock = Clock()
    clock.now = 5000.0
    with engine(path, clock=clock) as served:
        served.call(Ask("site"))
        clock.now += 6.0
        served.call(Ask("site"))
        monkeypatch.setattr("time.time", lambda: 4e9)  # the year 2096
        served.sweep()
        assert served.call(Describe("site"))["open"] == 2
    with engine(path, clock=lambda: 3.0) as served:  # a computer that was restarted
        served.sweep()
        assert served.call(Describe("site"))["open"] == 2
    clock.now = 1e6
    with engine(path, clock=clock) as served:
        served.call(Describe("site"))
        clock.now += 4.5
        served.sweep()
        assert served.call(Describe("site"))["open"] == 1  # 6 + 4.5 seconds were served, more than the first one's 10


def test_a_state_that_was_altered_is_refused_by_name(tmp_path):
    place = tmp_path / "tasks.db"
    small_task(place)
    with engine(place) as served:
        served.call(Ask("site"))
    alter(place, "UPDATE service_episodes SET arm = 3 - arm")
    with engine(place) as served, pytest.raises(Refused, match="but the selector chooses") as caught:
        served.call(Ask("site"))
    assert caught.value.status == 500
    alter(place, "UPDATE service_states SET state = '{}'")
    with engine(place) as served, pytest.raises(Refused, match="the checksum does not match"):
        served.call(Ask("site"))


def test_a_failed_transaction_leaves_nothing_behind_and_the_next_goes_on(place, monkeypatch):
    small_task(place)
    plain = library("tsallis-inf")
    with engine(place) as served:
        assert served.call(Ask("site"))["episodes"][0]["arm"] == plain.ask().arm
        write = service_store.write

        def fail(*arguments):
            write(*arguments)
            raise DamagedError("the disk is full")

        monkeypatch.setattr(service_store, "write", fail)
        with pytest.raises(Refused, match=r"^serve: the database does not answer, try again later$") as caught:
            served.call(Ask("site"))
        assert caught.value.status == 503
        assert served.failure == "the disk is full"
        assert not served.healthy
        monkeypatch.undo()
        assert served.call(Ask("site"))["episodes"][0] | {"lease": 0} == {
            "number": 1, "arm": plain.ask().arm, "name": [*SOURCES, "learner"][plain.open[-1].arm], "policy": None,
            "lease": 0,
        }  # fmt: skip
        assert served.failure is None
        assert served.healthy
        served._began = -1e9  # it waits for the database
        assert not served.healthy
        served._began = None


def test_too_many_open_episodes_are_refused(path):
    small_task(path, most_open=2)
    with engine(path) as served:
        served.call(Ask("site", 2))
        with pytest.raises(Refused, match="2 episodes of site are open, must be at most 2") as caught:
            served.call(Ask("site"))
        assert caught.value.status == 429


def test_the_state_tells_shares_means_intervals_and_what_is_proven(path):
    small_task(path)
    with api(path) as call:
        for number in range(40):
            arm = call.ask()["arm"]
            assert call.tell(number, [0.1, 0.9, 0.2, 0.3][arm])[0] == 200
        late = call.ask()
        state = call.state()
    assert (state["asked"], state["told"], state["open"]) == (41, 40, 1)
    assert sum(arm["share"] for arm in state["arms"]) == pytest.approx(1.0)
    for arm, mean in zip(state["arms"], [0.1, 0.9, 0.2, 0.3], strict=True):
        if arm["told"]:
            assert arm["lower"] <= arm["mean"] <= arm["upper"]
            assert arm["mean"] == pytest.approx(mean)
    assert state["arms"][state["best"]["arm"]]["name"] == "right"
    assert state["guarantee"]["to_learner"] > 0
    assert len(state["returns"]["all"]) == 40
    assert state["next_to_expire"][0]["number"] == late["number"]


def test_a_return_after_the_lease_counts_until_the_next_look(tmp_path):
    """As the docs say; and a task that is made again takes what was meant for the one before."""
    small_task(tmp_path / "tasks.db", lease=10.0)
    clock = Clock()
    with api(tmp_path / "tasks.db", clock) as call:
        early, late = call.ask()["number"], call.ask()["number"]
        clock.now += 11.0
        assert [one["late"] for one in call.state()["next_to_expire"]] == [True, True]
        assert call.tell(early, 0.5)[0] == 200
        call.service.engine.sweep()
        status, answer = call.tell(late, 0.5)
        assert (status, answer["error"]["code"]) == (409, "expired")
        call("DELETE", "/v1/tasks/site")
        assert call("POST", "/v1/tasks", {"name": "site", "sources": ["a"], "bounds": [0, 1]})[0] == 201
        assert call.ask()["number"] == early
        assert call.tell(early, 0.25)[0] == 200


def test_settings_are_checked_and_a_refused_task_is_not_there(tmp_path):
    place = tmp_path / "tasks.db"
    with api(place) as call:
        named = {"name": "a", "sources": ["x"], "bounds": [0, 1]}
        for body, words in (
            ({"name": "a/b"}, "no slash"),
            ({"name": "a "}, "no space at either end"),
            ({"name": ".."}, "more than dots"),
            ({"name": "a", "sources": "best"}, 'body.sources is wrong: must be "kept", a list of different ids'),
            ({"name": "a", "sources": ["x", "x"], "bounds": [0, 1]}, "different names"),
            ({"name": "a", "sources": [4, 4], "bounds": [0, 1]}, "different ids"),
            ({"name": "a", "sources": [], "bounds": [0, 1]}, "sources"),
            (named | {"bounds": [0, 0]}, "body.bounds is wrong: must have different items"),
            (named | {"selector": "ppr"}, "selector"),
            ({"name": "a", "path": "/etc/passwd"}, "it has a field path, must be of name, sources"),
        ):
            status, answer = call("POST", "/v1/tasks", body)
            assert (status, answer["error"]["code"]) == (422, "invalid"), (body, answer)
            assert words in answer["error"]["message"], (words, answer)
        for body, words in (  # each field is right by itself
            (named | {"sources": [4]}, "sources[0] is 4, must be the id of a stored policy"),
            (named | {"sources": ["x", "learner"]}, "learner is learner, must be a name that"),
            (named | {"learner": "x"}, "learner is x, must be a name that"),
            (named | {"bounds": [1, 0]}, "lower below upper"),
            ({"name": "a", "sources": ["x"]}, "no stored tasks"),
            ({"name": "a"}, "no policies are kept"),
            (named | {"selector": "informed"}, "stored policies"),
            (named | {"expired_return": 2.0}, "within the bounds"),
        ):
            status, answer = call("POST", "/v1/tasks", body)
            assert (status, answer["error"]["code"]) == (409, "impossible"), (body, answer)
            assert words in answer["error"]["message"], (words, answer)
        assert call("GET", "/v1/tasks") == (200, {"tasks": []})
        body = {"name": "a", "sources": ["x"], "bounds": [0, 1]}
        assert call("POST", "/v1/tasks", body)[0] == 201
        assert call("POST", "/v1/tasks", body | {"bounds": [0, 2]})[0] == 409
        assert call("DELETE", "/v1/tasks/a") == (200, {"removed": "a"})
        assert call("GET", "/v1/tasks/a")[0] == 404
    assert not any(all_rows(place))
    with Repository(place) as repository:
        assert json.dumps(repository.check()) == "[]"


def test_a_task_that_is_made_again_is_left_as_it_is(place):
    wanted = {"sources": SOURCES, "bounds": [0, 1], "selector": "tsallis-inf", "seed": 7}
    plain = library("tsallis-inf")
    with api(place) as call:
        assert call("POST", "/v1/tasks", {"name": "site"} | wanted)[0] == 201
        assert call.ask()["arm"] == plain.ask().arm
    before = all_rows(place)
    with api(place) as call:
        for same in (wanted, wanted | {"lease": 3600, "clip": False, "bounds": [0.0, 1.0], "expired_return": None}):
            status, answer = call("POST", "/v1/tasks", {"name": "site"} | same)
            assert (status, answer) == (200, call.state() | {"next_to_expire": answer["next_to_expire"]})
        assert make_task(call.repository, "site", **wanted | {"sources": tuple(SOURCES), "bounds": (0, 1.0)}) is False
        for other in (
            {"sources": SOURCES[::-1]}, {"bounds": [0, 2]}, {"clip": True}, {"seed": 8}, {"seed": None}, {"lease": 1.0},
            {"selector": None}, {"learner": "me"}, {"episodes": 500}, {"expired_return": 0.0}, {"most_open": 5},
        ):  # fmt: skip
            status, answer = call("POST", "/v1/tasks", {"name": "site"} | wanted | other)
            assert (status, answer["error"]["code"]) == (409, "task_exists"), other
            assert "which a task with other settings has" in answer["error"]["message"]
        assert all_rows(place) == before
        assert call.ask()["arm"] == plain.ask().arm


def test_a_task_of_the_kept_policies_is_the_same_when_others_are_kept(tmp_path):
    with api(tmp_path / "tasks.db") as call:
        for task in windy_corridor.family()[::15]:
            call.repository.add(task)
        call.repository.keep(k=3)
        first = call("POST", "/v1/tasks", {"name": "new"})[1]
        call.repository.keep(k=1)
        status, again = call("POST", "/v1/tasks", {"name": "new"})
        assert (status, again) == (200, first)
        assert call("POST", "/v1/tasks", {"name": "other"})[0] == 201
        assert len(call.state("other")["arms"]) == 2


def test_of_many_who_make_the_same_task_at_once_one_makes_it(place):
    wanted = {"name": "site", "sources": SOURCES, "bounds": [0, 1]}  # without a seed: whose is taken?
    with api(place) as call, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: call("POST", "/v1/tasks", wanted), range(8)))
    assert sorted(status for status, _ in answers) == [200] * 7 + [201]
    assert len({answer["seed"] for _, answer in answers}) == 1


def test_a_transaction_is_about_a_thousand_episodes_whatever_is_waiting(tmp_path):
    """A selector takes up to milliseconds for each: many large requests at once would hold the rows for long."""
    small_task(tmp_path / "tasks.db")
    sizes, may_go_on = list[int](), threading.Event()

    def committed(count: int, seconds: float) -> None:
        assert may_go_on.wait(240.0)
        sizes.append(400 * count)

    with engine(tmp_path / "tasks.db", committed=committed) as served, ThreadPoolExecutor(10) as pool:
        asked = [pool.submit(served.call, Ask("site", 400)) for _ in range(10)]
        while served._queue.qsize() < 7:  # the first transaction has taken three at most
            time.sleep(0.01)
        may_go_on.set()
        numbers = {episode["number"] for one in asked for episode in one.result()["episodes"]}
    assert numbers == set(range(4000))
    assert max(sizes) == 1200
