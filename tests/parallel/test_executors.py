"""What holds of every executor: the same bits, order, progress, errors as they are, Ctrl-C, and what dies is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import gymnasium as gym
import misbehaving  # noqa: F401  registers its walk
import numpy as np
import pytest
from clustering_reference import random_symmetric
from executors import (
    EXECUTORS,
    PATIENCE,
    PROCESSES,
    deadly,
    drawn,
    items_run,
    note_run,
    opened,
    process_of,
    square,
    started_here,
    wait_until,
)
from joblib.externals.loky import process_executor
from reference import random_mdp, random_policy
from transfer_runs import LAKE, assert_same_run, compiled_trials, plain_trials

from pastmaster import (
    ContinualTransfer,
    GymTask,
    InvalidInputError,
    TabularMDP,
    cross_values,
    estimate_cross_values,
    parallel,
    search_clusterings,
    solve,
)
from pastmaster.errors import LostWorkerError
from pastmaster.policies import NetworkPolicy

HERE = {"n_jobs": 2, "processes": True}
"""Processes of this machine, as ``transfer`` and ``estimate_cross_values`` ask for them."""


@pytest.fixture(scope="module")
def executor(request) -> Iterator[Executor]:
    """One of each kind for all tests: what a test leaves behind would disturb the next."""
    with opened(request.param) as made:
        yield made


def on(kinds: list[str]):
    return pytest.mark.parametrize("executor", kinds, indirect=True)


@on([*EXECUTORS, "loky"])
def test_results_come_in_order_with_a_bar_or_without(executor, capsys):
    for progress in (False, True):
        assert parallel.run(square, range(30), executor=executor, progress=progress) == [i * i for i in range(30)]
    assert parallel.run(square, [], executor=executor) == []
    assert capsys.readouterr().out == ""


# the same bits


@pytest.fixture(scope="module")
def family():
    """Tasks that share their dynamics, deterministic ones and others, all with policies of both kinds."""
    rng = np.random.default_rng(0)
    first = random_mdp(rng, 40, 3, 3)
    same = {"gamma": 0.9, "probability": first.probability, "terminated": first.terminated, "start": first.start}
    shared = [TabularMDP(first.next_state, rng.normal(size=first.reward.shape), **same) for _ in range(60)]
    others = [random_mdp(rng, 40, 3, outcomes) for outcomes in (None, None, 2, 3)]
    policies = [random_policy(rng, first, mixed=j % 20 == 0) for j in range(40)]
    return shared + others, policies


@pytest.fixture(scope="module")
def expected(family):
    return cross_values(*family)


@on(EXECUTORS)
def test_cross_values_are_the_same_on_every_executor(executor, family, expected):
    assert cross_values(*family, executor=executor).tobytes() == expected.tobytes()
    tasks = family[0][::10]
    assert cross_values(tasks, executor=executor).tobytes() == cross_values(tasks).tobytes()


def test_cross_values_do_not_depend_on_the_threads_of_blas():
    """Where BLAS multiplies, one thread and two round differently (a product of this size does)."""
    script = (
        "import numpy as np, sys; rng = np.random.default_rng(0)\n"
        "from pastmaster import TabularMDP, cross_values\n"
        "shape = (1250, 4, 2); states = rng.integers(1250, size=shape)\n"
        "chances = rng.dirichlet([1, 1], size=shape[:2])\n"
        "tasks = [TabularMDP(states, rng.normal(size=shape), probability=chances, gamma=0.9) for _ in range(100)]\n"
        "policies = [rng.integers(4, size=1250) for _ in range(64)]\n"
        "sys.stdout.write(cross_values(tasks, policies).tobytes().hex())"
    )
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", script], env=os.environ | {"OPENBLAS_NUM_THREADS": n}, stdout=subprocess.PIPE
        )
        for n in ("1", "2")
    ]
    written = [program.communicate()[0] for program in programs]
    assert written[0] == written[1]
    assert len(written[0]) == 100 * 64 * 16


def estimated(**how):
    """An estimate of environments that this process registered, by networks."""
    tasks = [GymTask("misbehaving/Walk-v0", {"at": at}, reward_range=(0, 1)) for at in (2, 3)]
    networks = [NetworkPolicy([([[1, 0], [slope, 1]], [0, 0])]) for slope in (-1, 1, 3)]
    options = {"episodes": 50, "directed": True, "restarts": 1, "iterations": 200}
    rng = np.random.default_rng(3)
    return estimate_cross_values(tasks, networks, rng=rng, budget=60, clustering=options, **how)


@pytest.fixture(scope="module")
def estimated_here():
    return estimated()


def assert_same_estimate(one, other):
    for name in ("mean", "low", "high", "episodes"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert one.clustering.labels.tobytes() == other.clustering.labels.tobytes()
    assert one.mean.std() > 0


@on(EXECUTORS)
def test_estimates_of_black_boxes_are_the_same_on_every_executor(executor, estimated_here):
    """Environments that this process registered, networks, tables: all reach the workers."""
    assert_same_estimate(estimated(executor=executor), estimated_here)


def assert_same_search(variant, **how):
    distance = random_symmetric(np.random.default_rng(1), 30)
    chosen = {"episodes": 1000, "span": 2.0, "restarts": 6, "iterations": 2000, "variant": variant}
    serial = search_clusterings(distance, rng=np.random.default_rng(2), **chosen)
    found = search_clusterings(distance, rng=np.random.default_rng(2), **how, **chosen)
    assert found.labels.tobytes() == serial.labels.tobytes()
    assert found.traces.tobytes() == serial.traces.tobytes()
    assert found.cost == serial.cost


@on(EXECUTORS)
@pytest.mark.parametrize("variant", ["default", "paper"])
def test_searches_are_the_same_on_every_executor(executor, variant):
    assert_same_search(variant, executor=executor)


@pytest.mark.parametrize("variant", ["default", "paper"])
def test_searches_are_the_same_on_threads_of_this_machine(variant):
    assert_same_search(variant, n_jobs=2)


@on(EXECUTORS)
@pytest.mark.parametrize("trials", [compiled_trials, plain_trials])
@pytest.mark.parametrize("selector", ["exp3-transfer", "ppr"])
def test_trials_are_the_same_on_every_executor(executor, trials, selector):
    serial = trials(selector=selector)
    assert_same_run(trials(selector=selector, executor=executor), serial)
    if trials is compiled_trials and selector != "ppr":
        assert serial.widened.any()


def test_compiled_trials_are_the_same_on_threads_of_this_machine():
    assert_same_run(compiled_trials(n_jobs=2), compiled_trials())


def test_python_trials_go_to_processes_and_compiled_ones_to_threads(monkeypatch):
    pids: list[int] = []

    class Watched(gym.Wrapper):
        def reset(self, **kwargs):
            pids.append(os.getpid())
            return super().reset(**kwargs)

    plain_trials(task=lambda: Watched(gym.make(LAKE)))
    assert set(pids) == {os.getpid()}
    pids.clear()
    plain_trials(task=lambda: Watched(gym.make(LAKE)), n_jobs=2)
    assert not pids

    def refused(*_):
        raise RuntimeError("no more processes")

    monkeypatch.setattr(process_executor.ProcessPoolExecutor, "submit", refused)
    compiled_trials(n_jobs=2)
    sentence = r"^transfer: the workers failed \(RuntimeError: no more processes\); with save='a folder' the same call"
    with pytest.raises(LostWorkerError, match=sentence):
        plain_trials(n_jobs=2)


@on(["processes"])
def test_an_environment_registered_here_only_is_found_by_its_id_in_a_process(executor):
    gym.register("HereOnly-v0", entry_point=lambda: gym.make(LAKE, is_slippery=False))
    try:
        assert_same_run(
            plain_trials(task="HereOnly-v0", horizon=100, executor=executor),
            plain_trials(task="HereOnly-v0", horizon=100),
        )
    finally:
        del gym.registry["HereOnly-v0"]


@on(PROCESSES)
def test_read_only_arrays_are_so_in_a_worker(executor, family):
    """An array that has lost its seal on the way is of another type to Numba, and compiles for half a minute."""
    tasks, _ = family
    sealed = solve(tasks[0]).policy
    sealed.setflags(write=False)

    def look(arrays):
        task, policy, free = arrays
        return task.reward.flags.writeable, policy.flags.writeable, free.flags.writeable, here.flags.writeable

    here = np.arange(3)
    here.setflags(write=False)
    seen = parallel.run(look, [(tasks[0], sealed, np.zeros(2))], executor=executor)
    assert seen == [(False, False, True, False)]


def test_a_team_keeps_its_processes_until_it_is_closed_or_disturbed():
    team = parallel.Team()
    how = HERE | {"team": team}
    first = set(parallel.run(process_of, range(6), **how))
    assert os.getpid() not in first
    assert set(parallel.run(process_of, range(6), **how)) <= first
    with pytest.raises(ZeroDivisionError):
        parallel.run(lambda x: 1 // 0, range(6), **HERE, team=(other := parallel.Team()))
    assert other.workers is None  # what failed is not used again
    team.close()
    for process in first:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@on(EXECUTORS)
def test_an_executor_stays_open(executor, family):
    for _ in range(2):
        assert parallel.run(square, range(5), executor=executor) == [0, 1, 4, 9, 16]
    assert executor.submit(abs, -1).result() == 1


# errors


class HeldError(Exception):
    """An error that cannot be sent anywhere."""

    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


@on(EXECUTORS)
@pytest.mark.parametrize(
    "error", [ZeroDivisionError("job 3"), InvalidInputError("x is 1"), KeyError("k"), SystemExit(3)]
)
def test_an_error_in_a_job_reaches_the_caller_unchanged(executor, error):
    def fails(item):
        if item == 3:
            raise error
        return item

    with pytest.raises(type(error)) as caught:
        parallel.run(fails, range(6), executor=executor)
    assert type(caught.value) is type(error)
    assert caught.value.args == error.args
    assert str(caught.value) == str(error)
    if not isinstance(executor, ThreadPoolExecutor):
        assert "in fails" in caught.value.__notes__[0]


def test_an_error_in_a_process_of_this_machine_reaches_the_caller_unchanged():
    with pytest.raises(KeyError, match="k") as caught:
        parallel.run(lambda item: {}["k"], range(6), **HERE)
    assert "in <lambda>" in caught.value.__notes__[0]


@on(PROCESSES)
def test_an_error_that_cannot_travel_is_said_in_words(executor):
    def fails(item):
        raise HeldError

    with pytest.raises(RuntimeError) as caught:
        parallel.run(fails, [0], executor=executor)
    assert str(caught.value) == "HeldError: held"


@on(EXECUTORS)
def test_an_error_ends_the_rest(executor, tmp_path):
    """The first job fails, and those that have begun wait until its error has been seen; the others never begin."""

    def job(item):
        note_run(tmp_path, item)
        try:
            (tmp_path / "failed").touch(exist_ok=False)  # whichever is first: dask does not begin with chunk 0
        except FileExistsError:
            while not (tmp_path / "seen").exists():
                time.sleep(0.02)
            return item
        raise ZeroDivisionError

    def release():
        wait_until((tmp_path / "failed").exists, "no job has failed")
        time.sleep(0.5)
        (tmp_path / "seen").touch()

    threads = isinstance(executor, ThreadPoolExecutor)  # whose call waits for what has begun
    releaser = threading.Thread(target=release)
    if threads:
        releaser.start()
    with pytest.raises(ZeroDivisionError):
        parallel.run(job, range(200), executor=executor)
    if not threads:
        releaser.start()
    releaser.join()
    assert parallel.run(abs, [-1, -2, -3, -4], executor=executor) == [1, 2, 3, 4]  # after all that was there
    begun = len(items_run(tmp_path))
    assert parallel.run(abs, [-1, -2, -3, -4], executor=executor) == [1, 2, 3, 4]
    assert len(items_run(tmp_path)) == begun < 20


@on(PROCESSES)
def test_what_cannot_be_sent_is_refused(executor):
    lock = threading.Lock()
    sentence = (
        r"^transfer: the jobs hold something that cannot be sent to another process \(cannot pickle '_thread.lock' "
        r"object\), must hold nothing of the kind; n_jobs=1 or a ThreadPoolExecutor as executor sends nothing$"
    )
    for how in ({"executor": executor}, HERE):
        with pytest.raises(InvalidInputError, match=sentence):
            parallel.run(lambda item: lock, [0], **how, caller="transfer")
        with pytest.raises(InvalidInputError, match=sentence):
            parallel.run(lambda item: item, [lock], **how, caller="transfer")
    with ThreadPoolExecutor(1) as threads:
        assert parallel.run(lambda item: lock, [0], executor=threads) == [lock]


def cross(**how):
    return cross_values([random_mdp(np.random.default_rng(0))], **how)


def search(**how):
    return search_clusterings(np.zeros((3, 3)), n_clusters=1, rng=0, **how)


def estimate(**how):
    return estimate_cross_values([random_mdp(np.random.default_rng(0), horizon=5)], budget=20, rng=0, **how)


CALLERS = [
    ("parallel.run", lambda **how: parallel.run(abs, [1], **how)),
    ("cross_values", cross),
    ("search_clusterings", search),
    ("estimate_cross_values", estimate),
    ("transfer", plain_trials),
    ("transfer", compiled_trials),
]


@pytest.mark.parametrize(("caller", "call"), CALLERS)
def test_an_executor_that_is_none_is_refused(caller, call):
    for executor in ("dask", 4, ThreadPoolExecutor, object()):
        with pytest.raises(InvalidInputError) as caught:
            call(executor=executor)
        assert str(caught.value).startswith(f"{caller}: executor is ")
        assert str(caught.value).endswith(
            ", must be a concurrent.futures.Executor, such as ProcessPoolExecutor(4) or "
            "distributed.Client(address).get_executor()"
        )


@pytest.mark.parametrize(("caller", "call"), CALLERS)
def test_an_executor_and_a_number_of_workers_are_refused(caller, call):
    sentence = rf"^{caller}: n_jobs is -1 and executor <.*ThreadPoolExecutor.*>, must be one of the two: an executor "
    with ThreadPoolExecutor(1) as executor, pytest.raises(InvalidInputError, match=sentence):
        call(executor=executor, n_jobs=-1)


@pytest.mark.parametrize(("caller", "call"), CALLERS)
def test_a_number_of_workers_that_is_none_is_refused(caller, call):
    for n_jobs in (0, -2, 1.5, "2", None):
        with pytest.raises(InvalidInputError, match=rf"^{caller}: n_jobs is .*, must be a positive number of workers"):
            call(n_jobs=n_jobs)


def test_an_agent_refuses_workers_before_anything_is_stored(repository):
    chosen = {"episodes": 5, "recluster_every": 2}
    with pytest.raises(InvalidInputError, match=r"^ContinualTransfer: executor is 'dask', must be a concurrent.fut"):
        ContinualTransfer(repository, executor="dask", **chosen)
    with pytest.raises(InvalidInputError, match=r"^ContinualTransfer: n_jobs is 0, must be a positive number"):
        ContinualTransfer(repository, n_jobs=0, **chosen)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_an_executor_that_was_shut_down_is_refused(kind):
    with opened(kind) as executor:
        executor.shutdown()
        sentence = r"^cross_values: executor is <.*>, which takes no job \(\w+Error: .* after shutdown\), must be one"
        with pytest.raises(InvalidInputError, match=sentence):
            cross(executor=executor)


class Cancelling(Executor):
    """Cancels what it is given and tells nobody, as ``shutdown(cancel_futures=True)`` in another thread does."""

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        future.cancel()
        return future


def test_chunks_that_were_cancelled_end_the_call():
    with pytest.raises(LostWorkerError, match=r"^cross_values: the workers failed \(CancelledError"):
        cross(executor=Cancelling())


def test_an_environment_that_trials_share_stays_with_the_caller():
    env = gym.make(LAKE)
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(
            InvalidInputError, match=r"^transfer: executor is <.*>, must be None for an environment that all"
        ),
    ):
        plain_trials(task=env, executor=executor)
    with pytest.raises(InvalidInputError, match=r"^transfer: n_jobs is 2, must be 1 for an environment that all"):
        plain_trials(task=env, n_jobs=2)


# workers that die


@on(["dask"])
def test_dask_replaces_a_killed_worker(executor, tmp_path):
    found = parallel.run(deadly(tmp_path, 1), range(16), executor=executor)
    assert items_run(tmp_path).count(5) == 2
    assert np.array_equal(found, [drawn(item) for item in range(16)])


@on(["dask"])
def test_trials_are_the_same_when_a_worker_of_dask_is_killed(executor, tmp_path):
    class Deadly(gym.Wrapper):
        def reset(self, **kwargs):
            if not (tmp_path / "killed").exists() and os.getpid() != driver:
                (tmp_path / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().reset(**kwargs)

    driver = os.getpid()
    serial = plain_trials()
    assert_same_run(plain_trials(task=lambda: Deadly(gym.make(LAKE)), executor=executor), serial)
    assert (tmp_path / "killed").exists()


@on(["dask"])
def test_a_chunk_that_kills_every_worker_of_dask_is_an_error(executor, tmp_path):
    sentence = r"^parallel.run: the workers failed \(KilledWorker: Attempted to run task .*\); with save='a folder' the"
    with pytest.raises(LostWorkerError, match=sentence):
        parallel.run(deadly(tmp_path, 99), range(8), executor=executor)
    assert parallel.run(abs, [-1], executor=executor) == [1]  # the cluster goes on


def kept_in(folder: Path) -> parallel.Saved:
    return parallel.Saved(folder, "key", lambda r: {"r": np.stack(r)}, lambda arrays, _: list(arrays["r"]))


@pytest.mark.parametrize("kind", ["processes", "n_jobs"])
def test_where_nobody_replaces_a_killed_worker_the_next_call_goes_on(kind, tmp_path):
    """The call ends with one sentence, what is finished stays, and with it the second call ends with the same bits."""
    notes, kept = tmp_path / "notes", tmp_path / "kept"
    notes.mkdir()
    kept.mkdir()
    before = started_here()

    def run():
        if kind == "n_jobs":
            return parallel.run(deadly(notes, 1), range(16), **HERE, save=kept_in(kept))
        with opened(kind) as executor:
            return parallel.run(deadly(notes, 1), range(16), executor=executor, save=kept_in(kept))

    sentence = (
        rf"^parallel.run: the workers failed \(\w+: A (worker )?process .*\); the same call goes on from the chunks "
        rf"kept in '{kept}'$"
    )
    with pytest.raises(LostWorkerError, match=sentence):
        run()
    assert started_here() == before
    finished = {int(path.stem.split("-")[1]) for path in kept.iterdir()}
    first = items_run(notes)
    assert 1 <= len(finished) < 16
    assert np.array_equal(run(), [drawn(item) for item in range(16)])
    second = items_run(notes)
    assert {item for item in range(16) if second.count(item) > first.count(item)} == set(range(16)) - finished


def test_a_process_that_is_killed_while_much_is_sent_to_it_does_not_hold_the_caller(tmp_path):
    """What the driver writes to a process that is gone must not be waited for."""
    items = [np.zeros(10**6) for _ in range(12)]

    def job(item):
        note_run(tmp_path, len(item))
        time.sleep(0.05)
        if len(items_run(tmp_path)) >= 3:
            os.kill(os.getpid(), signal.SIGKILL)

    before = started_here()
    with pytest.raises(LostWorkerError):
        parallel.run(job, items, **HERE)
    assert started_here() == before


# Ctrl-C


@on(PROCESSES)
def test_ctrl_c_returns_the_walks_that_are_over(executor, tmp_path, ctrl_c):
    """When the first walk is over; the others would take minutes."""
    ctrl_c(when=lambda: list(tmp_path.glob("*-000.npz")))
    distance = random_symmetric(np.random.default_rng(1), 60)
    chosen = {"episodes": 1000, "span": 2.0, "iterations": 50_000, "rng": np.random.default_rng(2)}
    found = search_clusterings(distance, restarts=60, executor=executor, save=tmp_path, **chosen)
    assert found.interrupted
    assert 1 <= len(found.traces) < 60
    assert len(found.labels) == 60


def endless_search(**settings):
    """Walks that would take hours."""
    distance = random_symmetric(np.random.default_rng(1), 60)
    chosen = {"episodes": 1000, "span": 2.0, "iterations": 10**11, "rng": np.random.default_rng(2)}
    return search_clusterings(distance, restarts=4, **chosen, **settings)


def test_ctrl_c_ends_walks_on_the_threads_of_an_executor(ctrl_c):
    begun = time.monotonic()
    with ThreadPoolExecutor(2) as executor:
        ctrl_c(when=lambda: time.monotonic() > begun + 1.0)
        found = endless_search(executor=executor)
        assert found.interrupted
        assert len(found.traces) == 4
        assert executor.submit(abs, -1).result() == 1


@on(PROCESSES)
def test_a_limit_of_time_holds_in_processes(executor):
    assert len(endless_search(executor=executor, time_limit=1.0).traces) == 4


@on(EXECUTORS)
def test_ctrl_c_takes_back_what_has_not_begun(executor, tmp_path, ctrl_c):
    def job(item):
        note_run(tmp_path, item)
        while not (tmp_path / "over").exists():
            time.sleep(0.02)

    def let_go():
        (tmp_path / "over").touch()

    ctrl_c(when=lambda: len(items_run(tmp_path)) >= 2)
    if isinstance(executor, ThreadPoolExecutor):  # what runs there is waited for
        threading.Timer(0.5, let_go).start()
    with pytest.raises(KeyboardInterrupt):
        parallel.run(job, range(100), executor=executor)
    let_go()
    assert parallel.run(abs, [-1, -2], executor=executor) == [1, 2]
    begun = len(items_run(tmp_path))
    assert parallel.run(abs, [-1, -2, -3], executor=executor) == [1, 2, 3]
    assert len(items_run(tmp_path)) == begun < 20


def test_ctrl_c_ends_the_processes_that_were_started_here(ctrl_c):
    before = started_here()
    ctrl_c(when=lambda: len(started_here() - before) >= 2)
    with pytest.raises(KeyboardInterrupt):
        parallel.run(time.sleep, [3600.0] * 4, **HERE)
    assert started_here() == before


def test_ctrl_c_returns_what_processes_started_here_have_finished(ctrl_c, tmp_path):
    before = started_here()
    ctrl_c(when=lambda: (tmp_path / "key-001.npz").exists())
    seconds = [0.0, 0.0, *[3600.0] * 4]
    told = []
    found = parallel.run(
        lambda wait: time.sleep(wait) or np.ones(1),
        seconds,
        **HERE,
        save=kept_in(tmp_path),
        on_interrupt=lambda: told.append(1),
    )
    assert (len(found), told) == (2, [1])
    assert started_here() == before


def test_processes_do_not_hear_ctrl_c():
    def blocked(item):
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])

    assert parallel.run(blocked, [0], **HERE) == [True]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


SLEEPERS = """
import os, sys, time
from pastmaster import parallel

FOLDER = sys.argv[1]

def job(item):
    open(os.path.join(FOLDER, str(os.getpid())), "w").close()
    time.sleep(3600)

if __name__ == "__main__":
    parallel.run(job, range(4), n_jobs=2, processes=True)
"""


def test_ctrl_c_at_a_terminal_leaves_no_worker_and_one_traceback(tmp_path, ctrl_c):
    """There the whole group of processes is told, the workers too."""
    (tmp_path / "script.py").write_text(SLEEPERS)
    folder = tmp_path / "pids"
    folder.mkdir()
    command = [sys.executable, tmp_path / "script.py", folder]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: len(list(folder.iterdir())) == 2, "the workers have not begun")
    os.killpg(driver.pid, signal.SIGINT)
    _, written = driver.communicate(timeout=PATIENCE)
    assert written.count("KeyboardInterrupt") == 1, written
    workers = [path.name for path in folder.iterdir()]
    assert len(workers) == 2
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "the workers have not ended")
