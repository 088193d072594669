from __future__ import annotations

import threading
import time

import gymnasium as gym
import misbehaving
import numpy as np
import pytest

from pastmaster import GymTask, InvalidInputError, Repository, TaskError, transfer
from pastmaster.estimation import EpisodeRange, episode_returns, estimate_values
from pastmaster.policies import FunctionPolicy, NetworkPolicy
from pastmaster.reuse import FixedPolicy
from pastmaster.tasks.guard import Watch, watched

WALK = "misbehaving/Walk-v0"
NETWORK = NetworkPolicy([(np.eye(2), np.zeros(2))])

pytestmark = pytest.mark.usefixtures("clock")


def walk(fault: str, **settings) -> GymTask:
    return GymTask(WALK, {"fault": fault}, name=f"the {fault} walk", time_limit=0.3, **settings)


def play(task: GymTask) -> None:
    episode_returns(task, [FunctionPolicy(lambda observation: 1)], [EpisodeRange(0, 0, 3)], 7)


def meet(task: GymTask) -> None:
    transfer(task, [lambda observation: 1], episodes=3, rng=np.random.default_rng(0), bounds=(0, 5),
             learner=FixedPolicy(lambda observation: 0))  # fmt: skip


def value(task: GymTask) -> None:
    estimate_values(task, [NETWORK], episodes=3, seed=1)


@pytest.mark.parametrize("use", [play, meet, value])
@pytest.mark.parametrize("fault", misbehaving.FAULTS)
def test_whatever_an_environment_does_wrong_is_told_by_name(fault, use):
    with pytest.raises(TaskError, match=f"^the {fault} walk: {misbehaving.FAULTS[fault]}"):
        use(walk(fault))


def test_a_walk_without_a_fault_is_played():
    task = walk("")
    returns = episode_returns(task, [FunctionPolicy(lambda observation: 1)], [EpisodeRange(0, 0, 3)], 7)[0]
    assert returns.tolist() == pytest.approx([0.5 * sum(task.gamma**k for k in range(5))] * 3)
    meet(task)
    value(task)


def test_the_error_keeps_its_cause():
    with pytest.raises(TaskError) as caught:
        play(walk("raises"))
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_environment_that_cannot_be_made_is_refused_at_once():
    with pytest.raises(InvalidInputError, match=r"cannot be made with .*no licence"):
        walk("making raises")


def test_an_environment_that_hangs_while_it_is_made_is_refused():
    def slow() -> None:
        misbehaving.lose_an_hour()
        time.sleep(3600)

    with pytest.raises(TaskError, match=r"making it has not returned for 0.3 seconds"):
        GymTask(slow, horizon=5, time_limit=0.3, name="slow to make")


def test_spaces_must_stay_what_they_were():
    sizes = iter([2, 2, 3])
    task = GymTask(lambda: gym.wrappers.RescaleObservation(_boxed(next(sizes)), 0, 1), horizon=5, name="growing")
    task().close()
    with pytest.raises(TaskError, match=r"^growing: its observation_space is Box.*\(3,\).*, was Box.*\(2,\)"):
        task()


def _boxed(size: int) -> gym.Env:
    env = misbehaving.Walk()
    env.observation_space = gym.spaces.Box(-10, 10, (size,))
    return env


@pytest.mark.parametrize("fault", misbehaving.FAULTS)
def test_a_repository_stays_as_it_was(tmp_path, fault):
    with Repository(tmp_path / "tasks.db") as repository:
        repository.add(GymTask(WALK, reward_range=(0, 1)), NETWORK)
        before = repository.cross_values()
        with pytest.raises(TaskError, match=misbehaving.FAULTS[fault]):
            repository.add(walk(fault), NETWORK)
        assert len(repository) == 1
        assert repository.cross_values().tobytes() == before.tobytes()
        assert repository.check() == []


def test_a_stored_environment_that_goes_wrong_later_leaves_all_as_it_was(tmp_path, monkeypatch):
    with Repository(tmp_path / "tasks.db") as repository:
        repository.add(GymTask(WALK, time_limit=0.3), NETWORK)
        other = NetworkPolicy([(-np.eye(2), np.zeros(2))])
        with monkeypatch.context() as patch:
            patch.setattr(misbehaving.Walk, "step", lambda self, action: 1 / 0)
            with pytest.raises(TaskError, match=r"step raised ZeroDivisionError"):
                repository.replace_policy(1, other)
        assert repository.check() == []
        repository.replace_policy(1, other)
        assert repository.check() == []


def test_a_slow_environment_within_its_limit_is_waited_for(clock):
    watch = Watch("slow", 2.0)

    def slow() -> None:
        clock.advance(1.9)
        clock.be_seen()

    assert watched(lambda: [watch("step", slow) for _ in range(4)], watch) == [None] * 4


def test_time_between_calls_does_not_count(clock):
    watch = Watch("quick", 0.2)

    def slow_policy() -> str:
        watch("step", int)
        clock.advance(0.6)
        watch("step", clock.be_seen)
        clock.advance(0.6)
        return "done"

    assert watched(slow_policy, watch) == "done"


def test_a_thread_that_was_left_behind_makes_no_further_call(clock):
    watch, calls, threads, go_on = Watch("late", 0.1), [], [], threading.Event()

    def late() -> None:
        threads.append(threading.current_thread())
        clock.advance(0.2)
        go_on.wait()

    with pytest.raises(TaskError, match="late: step has not returned"):
        watched(lambda: (watch("step", late), watch("step", calls.append, 1)), watch)
    go_on.set()
    threads[0].join(misbehaving.PATIENCE)
    assert not threads[0].is_alive()
    assert calls == []


def test_a_thread_that_spins_is_ended():
    with pytest.raises(TaskError):
        play(walk("spins"))
    for thread in threading.enumerate():
        if thread.name == "pastmaster the spins walk":
            thread.join(misbehaving.PATIENCE)
            assert not thread.is_alive()


def test_what_is_no_environments_fault_is_raised_as_it_is():
    def broken(observation):
        raise ArithmeticError("the policy's own")

    with pytest.raises(ArithmeticError, match="the policy's own"):
        episode_returns(walk(""), [FunctionPolicy(broken)], [EpisodeRange(0, 0, 1)], 0)


def test_without_a_limit_nothing_runs_on_another_thread():
    seen = []
    task = GymTask(WALK, time_limit=None)
    episode_returns(
        task, [FunctionPolicy(lambda o: seen.append(threading.current_thread()) or 0)], [EpisodeRange(0, 0, 1)], 0
    )
    assert set(seen) == {threading.current_thread()}
