"""Workers that die, hang, have other code or none; drivers that are killed or interrupted; strangers at the door."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import repetitions

import pastmaster
from pastmaster import InvalidInputError, parallel
from pastmaster.parallel import LostWorkerError, greeting, on_dask, on_ray
from pastmaster.parallel.cluster import Cluster

SEED = 20_000
WAIT = 120.0  # seconds, on a busy machine too
PACKAGE = Path(pastmaster.__file__).parent


def slow(backend: str) -> Any:
    """A kind of workers for ``make soak``: Ray starts slowly, others are tested so elsewhere."""
    return pytest.param(backend, marks=pytest.mark.soak)


def wait_until(happened: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT
    while not happened():
        assert time.monotonic() < deadline, f"in {WAIT:.0f} seconds {what}"
        time.sleep(0.02)


def needs(backend: str) -> None:
    pytest.importorskip({"loky": "joblib", "dask": "distributed", "ray": "ray"}[backend], reason="an extra")


def descendants(process: int) -> set[int]:
    """Processes that a process has started, and those that they have, without the ones that are ending."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = stat.read_text()
            state, parent = text.rsplit(")", 1)[1].split()[:2]
            if state != "Z" and b"resource_tracker" not in (stat.parent / "cmdline").read_bytes():
                parents[int(stat.parent.name)] = int(parent)
    found, more = set(), {process}
    while more:
        more = {child for child, parent in parents.items() if parent in more}
        found |= more
    return found


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# workers with other code, or none


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory) -> Iterator[str]:
    """The address of a dask scheduler in a process of its own, without workers."""
    needs("dask")
    with scheduler_process(tmp_path_factory.mktemp("dask")) as (_, address):
        yield address


@contextmanager
def scheduler_process(folder: Path) -> Iterator[tuple[subprocess.Popen, str]]:
    file = folder / "scheduler.json"
    arguments = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file]
    with running("distributed.cli.dask_scheduler", *arguments) as process:
        wait_until(lambda: file.exists() and file.stat().st_size, "there is no scheduler")
        yield process, json.loads(file.read_text())["address"]


@contextmanager
def running(module: str, *arguments: Any, path: Path | None = None) -> Iterator[subprocess.Popen]:
    """A process that runs a module, with another folder before all others on its path; it ends with the block."""
    places = [str(path)] if path else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*places, str(PACKAGE.parent)])}
    process = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)], env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def worker(address: str, path: Path | None = None, nanny: bool = False) -> Any:
    settings = ["--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1", "--nanny" if nanny else "--no-nanny"]
    return running("distributed.cli.dask_worker", address, *settings, path=path)


@contextmanager
def connected(address: str, workers: int) -> Iterator[Any]:
    """This program is connected to the scheduler, which has so many workers."""
    from distributed import Client

    with Client(address) as client:
        wait_until(lambda: len(client.nthreads()) == workers, f"there are no {workers} workers")
        yield client


def altered(folder: Path) -> Path:
    """A copy of the package that values policies otherwise."""
    shutil.copytree(PACKAGE, folder / "pastmaster", ignore=shutil.ignore_patterns("__pycache__"))
    with open(folder / "pastmaster" / "values" / "cross.py", "a") as file:
        file.write("\ncross_values = lambda *_, **__: 0.0\n")
    return folder


def missing(folder: Path) -> Path:
    """No package: as if it could not be found."""
    (folder / "pastmaster.py").write_text("""raise ModuleNotFoundError("No module named 'pastmaster'")\n""")
    return folder


def other_numpy(folder: Path) -> Path:
    (folder / "sitecustomize.py").write_text("import numpy\nnumpy.__version__ = '1.99.0'\n")
    return folder


OTHERS = {
    altered: r"its source digest is \w{16}, must be \w{16}$",
    missing: r"its pastmaster is missing \(ModuleNotFoundError: No module named 'pastmaster'\), must be 0",
    other_numpy: r"its NumPy is 1\.99\.0, must be 2",
}


def value(item: int) -> float:
    return float(np.random.default_rng(item).random())


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.__name__)
def test_a_worker_of_dask_that_differs_is_named_before_the_first_chunk(other, scheduler, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()

    def job(item):
        (notes / str(item)).touch()

    with worker(scheduler), worker(scheduler, other(tmp_path)), connected(scheduler, 2):
        sentence = rf"^parallel.run: backend is 'dask', whose worker tcp://127.0.0.1:\d+ is not like .*{OTHERS[other]}"
        with pytest.raises(InvalidInputError, match=sentence):
            parallel.run(job, range(20), backend="dask")
    assert not list(notes.iterdir())


def test_a_worker_of_dask_that_differs_and_comes_late_gets_no_chunk(scheduler, tmp_path):
    """It would take chunks as soon as it is there; it is asked in front of each."""
    place = altered(tmp_path / "altered")
    with ExitStack() as stack, worker(scheduler), connected(scheduler, 1):

        def job(item):
            (tmp_path / f"begun-{item}").touch()
            time.sleep(0.3)
            return sys.modules["pastmaster"].__file__

        def join():
            wait_until(lambda: list(tmp_path.glob("begun-*")), "no chunk has begun")
            stack.enter_context(worker(scheduler, place))

        late = threading.Thread(target=join)
        late.start()
        with pytest.raises(InvalidInputError, match=r"whose worker process \d+ on .* is not like .* its source"):
            parallel.run(job, range(250), backend="dask")
        late.join()


def test_a_worker_of_ray_that_differs_is_refused(monkeypatch, tmp_path):
    """Ray's workers see another package than the driver: here the driver's files are the ones that differ."""
    needs("ray")
    monkeypatch.setitem(vars(pastmaster), "_source_digest", "0" * 16)
    sentence = r"^cross_values: backend is 'ray', whose worker 127.0.0.1 \(\w{8}\) is not like .* must be 0{16}$"
    with pytest.raises(InvalidInputError, match=sentence):
        parallel.run(value, range(4), backend="ray", caller="cross_values")
    import ray

    assert not ray.is_initialized()


def test_a_worker_with_another_python_is_named():
    here = greeting.identity()
    assert here["Python"] == f"{sys.version_info.major}.{sys.version_info.minor}"

    class Other(Cluster):
        backend = "dask"
        members = answers = submit = close = None

    Other.__abstractmethods__ = frozenset()
    with pytest.raises(InvalidInputError, match=r"whose worker w is not .*: its Python is 3\.9, must be 3\.1\d$"):
        Other().greeted(here | {"Python": "3.9", "place": "w"})
    assert Other().greeted(b"results") == b"results"


def test_the_digest_is_that_of_the_files_when_they_were_imported(monkeypatch, tmp_path):
    """A worker that lives for weeks runs the files that it once imported, whatever is on the disk now."""
    place = altered(tmp_path)
    before = greeting.identity()
    monkeypatch.setattr(pastmaster, "__file__", str(place / "pastmaster" / "__init__.py"))
    assert greeting.identity() == before
    monkeypatch.delitem(vars(pastmaster), "_source_digest")
    assert greeting.identity()["source digest"] != before["source digest"]


# workers that do not answer, clusters that are lost


@pytest.fixture
def hurried(monkeypatch):
    """Clusters are given seconds where users are given a minute."""
    monkeypatch.setattr(Cluster, "patience", 3.0)
    monkeypatch.setattr(Cluster, "check_every", 0.5)


def test_a_worker_of_dask_that_hangs_is_named(scheduler, hurried):
    with worker(scheduler) as process, worker(scheduler), connected(scheduler, 2):
        process.send_signal(signal.SIGSTOP)
        sentence = r"^parallel.run: backend is 'dask', whose worker tcp://.* does not answer within 3 seconds, must be"
        with pytest.raises(InvalidInputError, match=sentence):
            parallel.run(value, range(4), backend="dask")


def test_a_cluster_of_dask_without_workers_is_told(scheduler, hurried):
    sentence = r"^parallel.run: backend is 'dask', whose cluster has no worker after 3 seconds, must have one"
    with connected(scheduler, 0), pytest.raises(InvalidInputError, match=sentence):
        parallel.run(value, range(4), backend="dask")


def test_workers_of_dask_that_have_all_gone_are_told(scheduler, hurried, tmp_path):
    def job(item):
        (tmp_path / str(item)).touch()
        time.sleep(600)

    with worker(scheduler) as process, connected(scheduler, 1):
        killer = threading.Thread(target=kill_when, args=(process, lambda: list(tmp_path.iterdir())))
        killer.start()
        with pytest.raises(parallel.LostWorkerError, match=r"^transfer: backend is 'dask', .* has been without"):
            parallel.run(job, range(4), backend="dask", caller="transfer")
        killer.join()


def kill_when(process: subprocess.Popen, happened: Callable[[], object]) -> None:
    wait_until(happened, "nothing has begun")
    process.kill()


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_scheduler_of_dask_that_is_lost_is_told(how, hurried, tmp_path):
    needs("dask")

    def job(item):
        (tmp_path / f"begun-{item}").touch()
        time.sleep(600)

    with scheduler_process(tmp_path) as (process, address), worker(address), connected(address, 1):

        def lose():
            wait_until(lambda: list(tmp_path.glob("begun-*")), "no chunk has begun")
            process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)

        loser = threading.Thread(target=lose)
        loser.start()
        with pytest.raises(parallel.LostWorkerError, match=r"^parallel.run: backend is 'dask', wh.*\n?$") as caught:
            parallel.run(job, range(4), backend="dask")
        loser.join()
        process.send_signal(signal.SIGCONT)
    assert "\n" not in str(caught.value)


def test_clients_of_dask_that_cannot_be_used_are_told(scheduler):
    from distributed import Client

    with worker(scheduler), connected(scheduler, 1) as client:
        client.close()
        with (
            Client.as_current(client),
            pytest.raises(parallel.LostWorkerError, match=r"^parallel.run: backend is 'dask"),
        ):
            parallel.run(value, range(4), backend="dask")


RAY_LOST = """
import os, signal, subprocess, sys, threading, time
from pathlib import Path
import psutil
from pastmaster import parallel

folder = Path(sys.argv[1])

def job(item):
    (folder / str(item)).touch()
    time.sleep(600)

def kill():
    while not list(folder.iterdir()):
        time.sleep(0.05)
    for process in psutil.Process().children(recursive=True):
        if process.name() == sys.argv[2]:
            process.kill()

if __name__ == "__main__":
    threading.Thread(target=kill).start()
    try:
        parallel.run(job, range(4), n_jobs=1, backend="ray", caller="transfer")
    except parallel.LostWorkerError as error:
        print("told:", error)
    print("then:", parallel.run(abs, [-1], backend="ray"))
"""


@pytest.mark.soak
@pytest.mark.parametrize(("which", "told"), [("gcs_server", "backend is 'ray', whose head is"), ("raylet", "")])
def test_a_cluster_of_ray_that_is_lost_is_told(which, told, tmp_path):
    """Ray would end the program after a minute."""
    needs("ray")
    script, notes = tmp_path / "script.py", tmp_path / "notes"
    script.write_text(RAY_LOST)
    notes.mkdir()
    done = subprocess.run(
        [sys.executable, script, notes, which], capture_output=True, text=True, check=False, timeout=300
    )
    assert f"told: transfer: {told}" in done.stdout, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("then: [1]")


# strangers at the door


def listening(processes: set[int]) -> set[tuple[str, int]]:
    """Addresses and ports on which processes listen, as the kernel tells them."""
    inodes = set()
    for process in processes:
        for link in Path(f"/proc/{process}/fd").glob("*"):
            with suppress(OSError):
                inodes.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in inodes:
                host, port = local.split(":")
                words = [bytes.fromhex(host[i : i + 8])[::-1] for i in range(0, len(host), 8)]
                found.add((socket.inet_ntop(family, b"".join(words)), int(port, 16)))
    return found


def outside() -> str:
    """The address of this machine that others see."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback")
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return address


def answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=5.0).close()
        return True
    except OSError:
        return False


HELD_OPEN = """
import sys, time
from pathlib import Path
from pastmaster import parallel

FOLDER = Path(sys.argv[-1])  # workers of Ray have arguments of their own

def job(item):
    (FOLDER / f"begun-{item}").touch()
    while not (FOLDER / "over").exists():
        time.sleep(0.05)

if __name__ == "__main__":
    parallel.run(job, range(2), n_jobs=2, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_nobody_reaches_a_cluster_that_was_started_for_a_call(backend, tmp_path, attempts):
    needs(backend)
    tally = attempts(f"a stranger knocks at a local cluster, {backend}", "no port answers on an outside address")
    address, script = outside(), tmp_path / "script.py"
    script.write_text(HELD_OPEN)
    driver = subprocess.Popen([sys.executable, script, backend, tmp_path], stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 2 or driver.poll(), "the jobs have not begun")
        doors = listening({driver.pid, *descendants(driver.pid)})
        assert len(doors) >= 5, doors  # scheduler or head, node, two workers, the driver
        for host, port in sorted(doors):
            with tally.attempt(f"{host} port {port}"):
                assert answers("127.0.0.1", port), "the control: it is a door at all"
                assert not answers(address, port), f"answers on {address}"
    finally:
        (tmp_path / "over").touch()
        _, told = driver.communicate(timeout=WAIT)
    assert driver.returncode == 0, told


def test_an_open_cluster_of_dask_is_refused_and_ended(monkeypatch):
    """The control: where dask does not listen to this machine alone, that is seen."""
    distributed = pytest.importorskip("distributed", reason="dask is an extra")
    make = distributed.LocalCluster
    monkeypatch.setattr(distributed, "LocalCluster", lambda **settings: make(**(settings | {"host": "0.0.0.0"})))
    before = descendants(os.getpid())
    sentence = r"^transfer: backend is 'dask', whose local cluster listens to other machines \(.* port \d+.*\), must"
    with pytest.raises(InvalidInputError, match=sentence):
        parallel.run(value, range(4), n_jobs=1, backend="dask", caller="transfer")
    wait_until(lambda: descendants(os.getpid()) <= before, "its processes have not ended")


def test_an_open_cluster_of_ray_is_refused_and_ended(monkeypatch):
    """The control: from Ray 2.54 on it listens to everybody if it is only told its address."""
    ray = pytest.importorskip("ray", reason="ray is an extra")
    if tuple(map(int, ray.__version__.split(".")[:2])) < (2, 54):
        pytest.skip("this Ray listens to this machine alone if it is told its address")
    monkeypatch.setattr(on_ray, "_settings", lambda _: nullcontext())
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or some versions warn
    before = descendants(os.getpid())
    with pytest.raises(
        InvalidInputError, match=r"^transfer: backend is 'ray', whose local cluster listens to other mac"
    ):
        parallel.run(value, range(4), n_jobs=1, backend="ray", caller="transfer")
    assert not ray.is_initialized()
    wait_until(lambda: descendants(os.getpid()) <= before, "its processes have not ended")


def test_a_socket_of_ones_own_is_no_part_of_the_cluster():
    """A web server, say, that the program has."""
    needs("dask")
    with socket.create_server(("0.0.0.0", 0)):
        assert parallel.run(value, range(2), n_jobs=1, backend="dask") == [value(0), value(1)]


# deaths


def pids_in(folder: Path) -> list[int]:
    return [int(path.name.split("-")[1]) for path in folder.glob("pid-*")]


def killed_in_the_middle(backend: str, folder: Path, seed: int) -> None:
    """One of the workers is killed at some moment; the results must be those of an undisturbed run."""
    folder.mkdir()
    rng = np.random.default_rng(seed)

    def job(item):
        (folder / f"pid-{os.getpid()}").touch()
        time.sleep(0.02)
        return np.random.default_rng(item).random(20)

    moment = float(rng.random() * 0.25)
    over = threading.Event()

    def kill() -> None:
        while not pids_in(folder):
            if over.wait(0.005):
                return
        time.sleep(moment)
        with suppress(ProcessLookupError):
            os.kill(int(rng.choice(sorted(pids_in(folder)))), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = parallel.run(job, range(24), n_jobs=2, backend=backend)
    finally:
        over.set()
        killer.join()
    assert np.stack(found).tobytes() == np.stack([np.random.default_rng(i).random(20) for i in range(24)]).tobytes()


@pytest.mark.repeated
@pytest.mark.parametrize("backend", ["loky", "dask", slow("ray")])
def test_a_worker_killed_in_the_middle_changes_no_bit(backend, tmp_path, attempts):
    needs(backend)
    tally = attempts(f"kill -9 of a worker, {backend}", "the same bits")
    for k in range(repetitions(12 if backend == "ray" else 30, 1)):
        with tally.attempt(f"seed {SEED + k}"):
            killed_in_the_middle(backend, tmp_path / str(k), SEED + k)


@pytest.fixture
def forgetful(monkeypatch):
    """Dask that never runs the first so many chunks: they ask for a worker that there is not."""
    needs("dask")
    monkeypatch.setattr(on_dask, "STALLED", 0.5)
    monkeypatch.setattr(on_dask.Dask, "check_every", 0.1)

    def forget(chunks: float) -> list[str]:
        submitted, sent = on_dask.Dask._submitted, []

        def some_lost(self, function, *arguments):
            if function is not eval:
                return submitted(self, function, *arguments)
            sent.append(arguments[0])
            if len(sent) > chunks:
                return submitted(self, function, *arguments)
            return self.client.submit(function, *arguments, pure=False, resources={"no worker has it": 1})

        monkeypatch.setattr(on_dask.Dask, "_submitted", some_lost)
        return sent

    return forget


@pytest.mark.parametrize("chunks", [1, 6])
def test_chunks_that_dask_never_runs_are_begun_again(forgetful, chunks):
    sent = forgetful(chunks)
    assert parallel.run(value, range(6), n_jobs=2, backend="dask") == [value(i) for i in range(6)]
    assert len(sent) == 6 + chunks


def test_chunks_that_are_never_run_at_all_are_an_error(forgetful):
    forgetful(float("inf"))
    with pytest.raises(LostWorkerError, match=r"^transfer: backend is 'dask', whose workers run none of the 3 chunks"):
        parallel.run(value, range(3), n_jobs=2, backend="dask", caller="transfer")


def test_chunks_that_take_long_are_run_once(forgetful, tmp_path):
    forgetful(0)

    def long(item):
        (tmp_path / f"{item}-{time.monotonic_ns()}").touch()
        time.sleep(2)
        return item

    assert parallel.run(long, range(4), n_jobs=2, backend="dask") == list(range(4))
    assert len(list(tmp_path.iterdir())) == 4


DRIVER = """
import os, sys, time
from pathlib import Path
import numpy as np
from pastmaster import parallel

backend, folder, notes = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])

def job(item):
    (notes / f"pid-{os.getpid()}").touch()
    time.sleep(0.05)
    return np.random.default_rng(item).random(20)

if __name__ == "__main__":
    keep = parallel.Saved(folder, "key", lambda r: {"r": np.stack(r)}, lambda arrays, _: list(arrays["r"]))
    found = parallel.run(job, range(40), n_jobs=2, backend=backend, save=keep)
    sys.stdout.write(np.stack(found).tobytes().hex())
"""


def driver_killed(backend: str, place: Path, seed: int) -> None:
    """The driver is killed at some moment after the first chunk, no worker outlives it, and the same call goes on."""
    folder, notes, script = place / "chunks", place / "notes", place / "driver.py"
    for made in (folder, notes):
        made.mkdir(parents=True)
    script.write_text(DRIVER)
    command = [sys.executable, script, backend, folder, notes]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: list(folder.glob("*.npz")) or driver.poll() is not None, "no chunk was kept")
    time.sleep(float(np.random.default_rng(seed).random()))
    driver.kill()
    driver.wait()
    workers = set(pids_in(notes)) - {driver.pid}
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*.npz")}
    wait_until(lambda: not any(map(alive, workers)), f"{workers} outlive their driver")
    second = subprocess.run(command, capture_output=True, check=True, timeout=WAIT)
    expected = np.stack([np.random.default_rng(i).random(20) for i in range(40)]).tobytes().hex()
    assert second.stdout.decode() == expected
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "what was kept was computed again"


@pytest.mark.repeated
@pytest.mark.parametrize("backend", [*map(slow, ["threads", "loky", "ray"]), "dask"])
def test_a_killed_driver_leaves_no_worker_and_goes_on_to_the_same_bits(backend, tmp_path, attempts):
    if backend != "threads":
        needs(backend)
    tally = attempts(f"kill -9 of the driver, {backend}", "no worker is left, resumed to the same bits")
    for k in range(repetitions(12, 1)):
        with tally.attempt(f"seed {SEED + k}"):
            driver_killed(backend, tmp_path / str(k), SEED + k)


# Ctrl-C in one process, again and again


STORM = """
import os, random, signal, sys, threading, time
from pastmaster import parallel

backend, seed, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
signal.signal(signal.SIGINT, signal.default_int_handler)

def job(item):
    time.sleep(0.05)
    return item

def attempt(rng):
    over = threading.Event()
    def press():
        over.wait(rng.random() * (1.5 if backend == "loky" else 5.0))
        for _ in range(rng.choice((1, 1, 2))):
            if not over.is_set():
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1 * rng.random())
    presser = threading.Thread(target=press)
    try:
        try:
            presser.start()
            parallel.run(job, range(40), n_jobs=2, backend=backend)
            said = "done"
        finally:
            over.set()
            presser.join()
    except KeyboardInterrupt:
        said = "interrupted"
    return said

if __name__ == "__main__":
    for k in range(times):
        try:
            print(attempt(random.Random(seed + k)), flush=True)
        except KeyboardInterrupt:  # the second press came after the first was told
            print("interrupted", flush=True)
        sys.stdin.readline()  # until the test has looked
    assert parallel.run(job, range(4), n_jobs=2, backend=backend) == [0, 1, 2, 3]
    print("works", flush=True)
"""


@pytest.mark.repeated
@pytest.mark.parametrize("backend", ["loky", "dask", slow("ray")])
def test_ctrl_c_at_any_moment_leaves_no_process_and_the_next_call_works(backend, tmp_path, attempts):
    needs(backend)
    tally = attempts(f"Ctrl-C during a call, {backend}", "no process is left, the next call works")
    times = repetitions({"loky": 60, "dask": 20, "ray": 12}[backend], 2)
    (tmp_path / "script.py").write_text(STORM)
    program = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", backend, str(SEED), str(times)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    for k in range(times):
        with tally.attempt(f"seed {SEED + k}"):
            said = program.stdout.readline()
            assert said in ("interrupted\n", "done\n"), said + (program.stderr.read() if not said else "")
            wait_until(lambda: not descendants(program.pid), f"{descendants(program.pid)} are left")
        with suppress(OSError):
            program.stdin.write("\n")
            program.stdin.flush()
    with tally.attempt("the next call"):
        rest, told = program.communicate(timeout=WAIT)
        assert rest == "works\n", told
