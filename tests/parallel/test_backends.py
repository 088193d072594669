"""The same bits on every kind of workers, whichever of them is killed; no chunk is lost but the one under way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import misbehaving  # noqa: F401  registers its walk
import numpy as np
import pytest
from clustering_reference import random_symmetric
from joblib.externals.loky import process_executor
from reference import random_mdp, random_policy

from pastmaster import (
    GymTask,
    InvalidInputError,
    QLearning,
    TabularMDP,
    cross_values,
    decay,
    estimate_cross_values,
    parallel,
    search_clusterings,
    solve,
    transfer,
)
from pastmaster.policies import NetworkPolicy

PROCESSES = ["loky", "dask", "ray"]
BACKENDS = ["threads", *PROCESSES]
LAKE = "FrozenLake-v1"
PATIENCE = 240.0  # seconds after which a test gives up, on a busy machine too


@pytest.fixture(autouse=True)
def cluster(request):
    """What runs on a cluster finds one, as a user would have made it."""
    backend = request.node.callspec.params.get("backend") if hasattr(request.node, "callspec") else None
    if backend in ("dask", "ray"):
        request.getfixturevalue(f"{backend}_cluster")


@pytest.fixture(scope="module")
def dask_cluster():
    distributed = pytest.importorskip("distributed", reason="dask is an extra")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
    )
    client = distributed.Client(cluster)
    yield
    client.close()
    cluster.close()


@pytest.fixture(scope="module")
def ray_cluster():
    ray = pytest.importorskip("ray", reason="ray is an extra")
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
        _node_ip_address="127.0.0.1",
    )  # fmt: skip
    yield
    ray.shutdown()


def wait_until(happened: Callable[[], object], what: str) -> None:
    """Return when something has happened."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"in {PATIENCE:.0f} seconds {what}"
        time.sleep(0.02)


def times_run(folder: Path) -> int:
    return len(list(folder.glob("run-*")))


def note_run(folder: Path, item: int) -> None:
    """Leave a file for this run of an item, with the worker's process id."""
    (folder / f"run-{item}-{os.getpid()}-{time.monotonic_ns()}").touch()


# the same bits


@pytest.fixture(scope="module")
def family():
    """Tasks that share their dynamics, deterministic ones and others, all with policies of both kinds."""
    rng = np.random.default_rng(0)
    first = random_mdp(rng, 40, 3, 3)
    same = {"gamma": 0.9, "probability": first.probability, "terminated": first.terminated, "start": first.start}
    shared = [TabularMDP(first.next_state, rng.normal(size=first.reward.shape), **same) for _ in range(200)]
    others = [random_mdp(rng, 40, 3, outcomes) for outcomes in (None, None, 2, 3)]
    policies = [random_policy(rng, first, mixed=j % 20 == 0) for j in range(150)]
    return shared + others, policies


@pytest.fixture(scope="module")
def expected(family):
    return cross_values(*family)


def process_of(_):
    return os.getpid()


def test_a_team_keeps_its_processes_until_it_is_closed_or_disturbed():
    team = parallel.Team()
    how = {"n_jobs": 2, "backend": "loky", "team": team}
    first = set(parallel.run(process_of, range(6), **how))
    assert os.getpid() not in first
    assert set(parallel.run(process_of, range(6), **how)) <= first
    with pytest.raises(ZeroDivisionError):
        parallel.run(lambda x: 1 // 0, range(6), n_jobs=2, backend="loky", team=(other := parallel.Team()))
    assert other.workers is None  # what failed is not used again
    team.close()
    for process in first:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert not set(parallel.run(process_of, range(6), **how)) & first
    team.close()


def test_processes_are_started_one_at_a_time(monkeypatch):
    """The oldest joblib forks as it starts one, and filelock, say, refuses two forks at once."""
    start, started, most = process_executor.ProcessPoolExecutor.submit, [], []

    def slowly(self, *job):
        started.append(self)
        most.append(len(started))
        time.sleep(0.02)
        started.remove(self)
        return start(self, *job)

    monkeypatch.setattr(process_executor.ProcessPoolExecutor, "submit", slowly)
    assert parallel.run(abs, range(6), n_jobs=3, backend="loky") == list(range(6))
    assert most == [1] * 6


def test_a_process_that_cannot_be_started_is_told_in_words(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no more processes")

    monkeypatch.setattr(process_executor.ProcessPoolExecutor, "submit", refuse)
    sentence = r"^transfer: backend is 'loky', which failed \(RuntimeError: no more processes\)"
    with pytest.raises(parallel.LostWorkerError, match=sentence):
        parallel.run(abs, range(6), n_jobs=3, backend="loky", caller="transfer")


def test_a_process_that_is_killed_while_it_has_no_chunk_is_replaced():
    team = parallel.Team()
    how = {"n_jobs": 1, "backend": "loky", "team": team}
    (first,) = set(parallel.run(process_of, range(3), **how))
    os.kill(first, signal.SIGKILL)
    executor = team.workers.processes[0].executor
    wait_until(lambda: executor._flags.broken is not None, "loky has not seen that its process is dead")
    (second,) = set(parallel.run(process_of, range(3), **how))
    assert second != first
    team.close()


def estimated(**how):
    """An estimate of environments that this process registered, by networks."""
    tasks = [GymTask("misbehaving/Walk-v0", {"at": at}, reward_range=(0, 1)) for at in (2, 3)]
    networks = [NetworkPolicy([([[1, 0], [slope, 1]], [0, 0])]) for slope in (-1, 1, 3)]
    options = {"episodes": 50, "directed": True, "restarts": 1, "iterations": 200}
    rng = np.random.default_rng(3)
    return estimate_cross_values(tasks, networks, rng=rng, budget=120, clustering=options, **how)


@pytest.fixture(scope="module")
def estimated_here():
    return estimated()


@pytest.mark.parametrize("backend", BACKENDS)
def test_estimates_of_black_boxes_are_the_same_on_every_backend(backend, estimated_here):
    """Environments that this process registered, networks, tables: all reach the workers."""
    one, many = estimated_here, estimated(n_jobs=2, backend=backend)
    for name in ("mean", "low", "high", "episodes"):
        assert getattr(one, name).tobytes() == getattr(many, name).tobytes(), name
    assert one.clustering.labels.tobytes() == many.clustering.labels.tobytes()
    assert one.mean.std() > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_cross_values_are_the_same_on_every_backend(backend, family, expected):
    assert cross_values(*family, n_jobs=2, backend=backend).tobytes() == expected.tobytes()
    if backend == "loky":  # starting processes once is enough
        return
    tasks = family[0][::25]
    assert cross_values(tasks, n_jobs=2, backend=backend).tobytes() == cross_values(tasks).tobytes()


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
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"OPENBLAS_NUM_THREADS": n},
            capture_output=True,
            check=True,
        ).stdout
        for n in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(told[0]) == 100 * 64 * 16


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("variant", ["default", "paper"])
def test_searches_are_the_same_on_every_backend(backend, variant):
    distance = random_symmetric(np.random.default_rng(1), 30)
    chosen = {"episodes": 1000, "span": 2.0, "restarts": 6, "iterations": 2000, "variant": variant}
    serial = search_clusterings(distance, rng=np.random.default_rng(2), **chosen)
    found = search_clusterings(distance, rng=np.random.default_rng(2), n_jobs=2, backend=backend, **chosen)
    assert found.labels.tobytes() == serial.labels.tobytes()
    assert found.traces.tobytes() == serial.traces.tobytes()
    assert found.cost == serial.cost


def assert_same_run(one, other):
    for name in ("returns", "arms", "eliminated_at", "clipped", "widened", "recommended"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert getattr(one, name).dtype == getattr(other, name).dtype
    for mine, theirs in zip(one.selectors, other.selectors, strict=True):
        assert type(mine) is type(theirs)
        assert mine.to_dict() == theirs.to_dict()
        assert mine._rng.spawn(1)[0].random() == theirs._rng.spawn(1)[0].random()
    for mine, theirs in zip(one.learners, other.learners, strict=True):
        for name in ("Q", "visits", "own_episodes", "steps", "epsilons"):
            assert getattr(mine, name).tobytes() == getattr(theirs, name).tobytes()
        assert mine.rng.bit_generator.state == theirs.rng.bit_generator.state
        assert mine.rng.spawn(1)[0].random() == theirs.rng.spawn(1)[0].random()
        assert mine.Q.flags.writeable
        assert theirs.Q.flags.writeable


def compiled_trials(**settings):
    """A run on arrays, whose bounds are too narrow at first."""
    rng = np.random.default_rng(3)
    task = random_mdp(rng, 20, 3, 3, horizon=30)
    sources = [random_policy(rng, task) for _ in range(3)]
    chosen = {"learner": QLearning(step_size=decay(0.9, 20)), "on_violation": "widen", "bounds": (-0.2, 0.2)}
    return transfer(task, sources, episodes=300, trials=5, rng=np.random.default_rng(4), **(chosen | settings))


def plain_trials(**settings):
    """A run in a Gymnasium environment."""
    sources = [solve(TabularMDP.from_gymnasium(LAKE, 0.95)).policy, np.full((16, 4), 0.25)]
    chosen = {"task": LAKE, "episodes": 40, "bounds": (0, 1), "gamma": 0.95, "trials": 4}
    return transfer(sources=sources, rng=np.random.default_rng(5), **(chosen | settings))


CASES = [
    (backend, trials, selector)
    for backend in BACKENDS
    for trials in (compiled_trials, plain_trials)
    for selector in ("exp3-transfer", "ppr")
    if backend != "loky" or (trials is plain_trials) != (selector == "ppr")  # processes are slow to start: two cases
]


@pytest.mark.parametrize(("backend", "trials", "selector"), CASES)
def test_trials_are_the_same_on_every_backend(backend, trials, selector):
    serial = trials(selector=selector)
    assert_same_run(trials(selector=selector, n_jobs=2, backend=backend), serial)
    if trials is compiled_trials and selector != "ppr":
        assert serial.widened.any()


def test_python_trials_go_to_processes_by_default_and_compiled_ones_to_threads(monkeypatch):
    pids: list[int] = []

    class Told(gym.Wrapper):
        def reset(self, **kwargs):
            pids.append(os.getpid())
            return super().reset(**kwargs)

    plain_trials(task=lambda: Told(gym.make(LAKE)))
    assert set(pids) == {os.getpid()}
    pids.clear()
    plain_trials(task=lambda: Told(gym.make(LAKE)), n_jobs=2)
    assert not pids
    monkeypatch.setattr(parallel, "BACKENDS", {"threads": parallel.BACKENDS["threads"]})
    compiled_trials(n_jobs=2)
    with pytest.raises(InvalidInputError, match="backend is 'loky'"):
        plain_trials(n_jobs=2)


def test_an_environment_registered_here_only_is_found_by_its_id_in_a_process():
    gym.register("HereOnly-v0", entry_point=lambda: gym.make(LAKE, is_slippery=False))
    try:
        assert_same_run(
            plain_trials(task="HereOnly-v0", horizon=100, n_jobs=2), plain_trials(task="HereOnly-v0", horizon=100)
        )
    finally:
        del gym.registry["HereOnly-v0"]


@pytest.mark.parametrize("backend", PROCESSES)
def test_read_only_arrays_are_so_in_a_worker(backend, family):
    """An array that has lost its seal on the way is of another type to Numba, and compiles for half a minute."""
    tasks, _ = family
    sealed = solve(tasks[0]).policy
    sealed.setflags(write=False)

    def look(arrays):
        task, policy, free = arrays
        return task.reward.flags.writeable, policy.flags.writeable, free.flags.writeable, here.flags.writeable

    here = np.arange(3)
    here.setflags(write=False)
    told = parallel.run(look, [(tasks[0], sealed, np.zeros(2))], backend=backend)
    assert told == [(False, False, True, False)]


# workers that die, jobs that fail


@pytest.mark.parametrize("backend", PROCESSES)
def test_a_killed_worker_costs_one_chunk(backend, tmp_path):
    def job(item):
        note_run(tmp_path, item)
        time.sleep(0.1)
        if item == 5 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return np.random.default_rng(item).random(3)

    found = parallel.run(job, range(16), n_jobs=2, backend=backend)
    redone = times_run(tmp_path) - 16
    print(f"{backend}: {redone} of 16 chunks run again")
    assert (tmp_path / "killed").exists()
    assert redone == 1
    assert np.array_equal(found, [np.random.default_rng(item).random(3) for item in range(16)])


@pytest.mark.parametrize("backend", PROCESSES)
def test_trials_are_the_same_when_a_worker_is_killed(backend, tmp_path):
    class Deadly(gym.Wrapper):
        def reset(self, **kwargs):
            if not (tmp_path / "killed").exists() and os.getpid() != driver:
                (tmp_path / "killed").touch()
                time.sleep(0.1)
                os.kill(os.getpid(), signal.SIGKILL)
            return super().reset(**kwargs)

    driver = os.getpid()
    serial = plain_trials()
    assert_same_run(plain_trials(task=lambda: Deadly(gym.make(LAKE)), n_jobs=2, backend=backend), serial)
    assert (tmp_path / "killed").exists()


@pytest.mark.parametrize("backend", PROCESSES)
def test_a_chunk_that_kills_every_worker_is_named(backend, tmp_path):
    def job(item):
        note_run(tmp_path, item)
        if item == 2:
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    which = r"\d" if backend == "dask" else "3"  # a worker of dask may hold a neighbour too, which dask may blame
    sentence = rf"^parallel.run: a worker died at least 3 times on chunk {which} of 3: is it"
    with pytest.raises(parallel.LostWorkerError, match=sentence):
        parallel.run(job, range(3), n_jobs=1, backend=backend)
    assert len(list(tmp_path.glob("run-2-*"))) == (4 if backend == "dask" else 3)  # as this cluster is set up
    assert parallel.run(abs, [-1], backend=backend) == [1]  # the cluster goes on


class HeldError(Exception):
    """An error that cannot be sent anywhere."""

    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize(
    "error", [ZeroDivisionError("job 3"), InvalidInputError("x is 1"), KeyError("k"), SystemExit(3)]
)
def test_an_error_in_a_job_reaches_the_caller_unchanged(backend, error):
    if backend == "loky" and not isinstance(error, InvalidInputError | SystemExit):
        return  # starting processes twice is enough

    def fails(item):
        if item == 3:
            raise error
        return item

    with pytest.raises(type(error)) as caught:
        parallel.run(fails, range(6), backend=backend)
    assert type(caught.value) is type(error)
    assert caught.value.args == error.args
    assert str(caught.value) == str(error)
    if backend in PROCESSES:
        assert "in fails" in caught.value.__notes__[0]


@pytest.mark.parametrize("backend", PROCESSES)
def test_an_error_that_cannot_travel_is_said_in_words(backend):
    def fails(item):
        raise HeldError

    with pytest.raises(RuntimeError) as caught:
        parallel.run(fails, [0], backend=backend)
    assert str(caught.value) == "HeldError: held"


def tasks_of_dask() -> int:
    """How many there are, under way or waiting."""
    from distributed import Client

    return Client.current().run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def jobs_of_dask() -> int:
    """How many jobs its workers run or hold; the scheduler forgets those that nobody wants before they end."""
    from distributed import Client

    held = Client.current().run(lambda dask_worker: len(dask_worker.state.executing) + len(dask_worker.state.ready))
    return sum(held.values())


@pytest.mark.parametrize("backend", PROCESSES)
def test_an_error_ends_the_rest(backend, tmp_path):
    """The first job fails, and those that have begun wait until its error has been seen; of the others none begins."""

    def job(item):
        note_run(tmp_path, item)
        try:
            (tmp_path / "failed").touch(exist_ok=False)  # whichever is first: dask does not begin with chunk 0
        except FileExistsError:
            while not (tmp_path / "seen").exists():
                time.sleep(0.02)
            return item
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        parallel.run(job, range(400), n_jobs=2, backend=backend)
    if backend == "dask":
        wait_until(lambda: tasks_of_dask() < 10, "dask has not let go of the jobs that nobody wants")
    (tmp_path / "seen").touch()
    if backend == "dask":
        wait_until(lambda: not jobs_of_dask(), "dask's workers have not ended the jobs they had")
    assert parallel.run(abs, [-1, -2, -3, -4], n_jobs=2, backend=backend) == [1, 2, 3, 4]  # after all that was there
    begun = times_run(tmp_path)
    assert parallel.run(abs, [-1, -2, -3, -4], n_jobs=2, backend=backend) == [1, 2, 3, 4]
    assert times_run(tmp_path) == begun < 20


@pytest.mark.parametrize("backend", PROCESSES)
def test_what_cannot_be_sent_is_refused(backend):
    lock = threading.Lock()
    with pytest.raises(InvalidInputError, match=r"run: the jobs hold .* sent to another process \(.*lock.*'threads'$"):
        parallel.run(lambda item: lock, [0], backend=backend)
    with pytest.raises(InvalidInputError, match=r"run: the jobs hold .* sent to another process"):
        parallel.run(lambda item: item, [lock], backend=backend)
    assert parallel.run(lambda item: lock, [0], backend="threads") == [lock]


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("dask", "dask"), ("ray", "ray")])
def test_a_missing_package_is_named(backend, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidInputError) as caught:
        parallel.run(abs, [1], backend=backend)
    assert str(caught.value) == (
        f"parallel.run: backend is {backend!r}, which needs the package {package}: pip install {package}"
    )


CALLERS = [
    ("parallel.run", lambda **k: parallel.run(abs, [1], **k)),
    ("cross_values", lambda **k: cross_values([random_mdp(np.random.default_rng(0))], **k)),
    ("search_clusterings", lambda **k: search_clusterings(np.zeros((3, 3)), n_clusters=1, rng=0, **k)),
    ("estimate_cross_values", lambda **k: estimate_cross_values(
        [random_mdp(np.random.default_rng(0), horizon=5)], budget=20, rng=0, **k
    )),
    ("transfer", lambda **k: plain_trials(**k)),
    ("transfer", lambda **k: compiled_trials(**k)),
]  # fmt: skip


@pytest.mark.parametrize(("caller", "call"), CALLERS)
@pytest.mark.parametrize("backend", ["multiprocessing", "", 1, "Loky"])
def test_an_unknown_backend_is_refused(caller, call, backend):
    sentence = rf"^{caller}: backend is .*, must be one of threads, loky, dask, ray, or None"
    for n_jobs in (1, 2):
        with pytest.raises(InvalidInputError, match=sentence):
            call(backend=backend, n_jobs=n_jobs)


@pytest.mark.parametrize(("caller", "call"), CALLERS)
def test_a_number_of_workers_that_is_none_is_refused(caller, call):
    for n_jobs in (0, -2, 1.5, "2", None):
        with pytest.raises(InvalidInputError, match=rf"^{caller}: n_jobs is .*, must be a positive number of workers"):
            call(n_jobs=n_jobs)


def test_an_environment_that_trials_share_stays_in_this_process():
    env = gym.make(LAKE)
    with pytest.raises(InvalidInputError, match=r"transfer: backend is 'loky', must be None for an environment that"):
        plain_trials(task=env, backend="loky")


OWN_CLUSTERS = """
import os, sys, time, warnings
warnings.simplefilter("error")
from pastmaster import parallel

if __name__ == "__main__":
    for backend in ("dask", "ray"):
        pids = parallel.run(lambda item: os.getpid(), range(8), n_jobs=2, backend=backend)
        assert 1 <= len(set(pids)) <= 2 and os.getpid() not in pids, pids
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):  # the test that runs this has a limit
            time.sleep(0.1)
    import ray
    assert not ray.is_initialized()
"""


def test_without_a_cluster_one_is_made_and_ended(tmp_path):
    pytest.importorskip("distributed", reason="dask is an extra")
    pytest.importorskip("ray", reason="ray is an extra")
    (tmp_path / "script.py").write_text(OWN_CLUSTERS)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


# Ctrl-C


def children() -> set[str]:
    """Process ids of this process's children, without the ones that are ending."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = stat.read_text().split(" ", 1)
        except OSError:
            continue
        state, parent = rest.rsplit(")", 1)[1].split()[:2]
        if parent == str(os.getpid()) and state != "Z" and "tracker" not in Path(f"/proc/{pid}/cmdline").read_text():
            found.add(pid)
    return found


@pytest.mark.parametrize("backend", PROCESSES)
def test_ctrl_c_returns_the_walks_that_are_over(backend, tmp_path, ctrl_c):
    """When the first walk is over; the others would take minutes."""
    before = children()
    ctrl_c(when=lambda: list(tmp_path.glob("*-000.npz")))
    distance = random_symmetric(np.random.default_rng(1), 60)
    chosen = {"episodes": 1000, "span": 2.0, "iterations": 1_000_000, "rng": np.random.default_rng(2)}
    found = search_clusterings(distance, restarts=60, n_jobs=1, backend=backend, save=tmp_path, **chosen)
    assert found.interrupted
    assert 1 <= len(found.traces) < 60
    assert len(found.labels) == 60
    if backend == "loky":
        assert children() == before


def endless_search(**settings):
    """Walks that would take hours, on two processes."""
    distance = random_symmetric(np.random.default_rng(1), 60)
    chosen = {"episodes": 1000, "span": 2.0, "iterations": 10**11, "rng": np.random.default_rng(2)}
    return search_clusterings(distance, restarts=4, n_jobs=2, backend="loky", **chosen, **settings)


def test_ctrl_c_before_any_walk_is_over_is_ctrl_c(ctrl_c):
    before = children()
    ctrl_c(when=lambda: len(children() - before) >= 2)
    with pytest.raises(KeyboardInterrupt):
        endless_search()
    assert children() == before


def test_a_limit_of_time_holds_in_processes():
    assert len(endless_search(time_limit=3.0).traces) == 4


def test_workers_do_not_hear_ctrl_c():
    def blocked(item):
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])

    assert parallel.run(blocked, [0], backend="loky") == [True]


SLEEPERS = """
import os, sys, time
from pastmaster import parallel

FOLDER = sys.argv[2]

def job(item):
    open(os.path.join(FOLDER, str(os.getpid())), "w").close()
    time.sleep(3600)

if __name__ == "__main__":
    parallel.run(job, range(4), n_jobs=2, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", PROCESSES)
def test_ctrl_c_at_a_terminal_leaves_no_worker_and_one_traceback(backend, tmp_path, ctrl_c):
    """There the whole group of processes is told, the workers too."""
    pytest.importorskip({"loky": "joblib", "dask": "distributed", "ray": "ray"}[backend], reason="an extra")
    (tmp_path / "script.py").write_text(SLEEPERS)
    folder = tmp_path / "pids"
    folder.mkdir()
    command = [sys.executable, tmp_path / "script.py", backend, folder]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: len(list(folder.iterdir())) == 2, "the workers have not begun")
    os.killpg(driver.pid, signal.SIGINT)
    _, told = driver.communicate(timeout=PATIENCE)
    assert told.count("KeyboardInterrupt") == 1, told
    workers = [path.name for path in folder.iterdir()]
    assert len(workers) == 2
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "the workers have not ended")
