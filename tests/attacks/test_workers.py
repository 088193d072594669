"""Workers that die, drivers that are killed, Ctrl-C at any moment: the same bits in the end, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executors import dask_cluster, wait_until
from faults import repetitions

from pastmaster import parallel
from pastmaster.errors import LostWorkerError

SEED = 20_000
WAIT = 240.0  # seconds, on a busy machine too
HERE = {"n_jobs": 2, "processes": True}


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


# workers that are killed


def pids_in(folder: Path) -> list[int]:
    return [int(path.name.split("-")[1]) for path in folder.glob("pid-*")]


def expected(count: int) -> np.ndarray:
    return np.stack([np.random.default_rng(i).random(20) for i in range(count)])


def kept_in(folder: Path) -> parallel.Saved:
    return parallel.Saved(folder, "key", lambda r: {"r": np.stack(r)}, lambda arrays, _: list(arrays["r"]))


def killed_in_the_middle(executor: Executor | None, folder: Path, seed: int) -> None:
    """One of the workers is killed at some moment; in the end the results must be those of an undisturbed run."""
    notes, kept = folder / "notes", folder / "kept"
    notes.mkdir(parents=True)
    kept.mkdir()
    rng = np.random.default_rng(seed)
    workers: dict[str, Any] = HERE if executor is None else {"executor": executor}

    def job(item):
        (notes / f"pid-{os.getpid()}").touch()
        time.sleep(0.02)
        return np.random.default_rng(item).random(20)

    moment = float(rng.random() * 0.25)
    over = threading.Event()

    def kill() -> None:
        while not pids_in(notes):
            if over.wait(0.005):
                return
        time.sleep(moment)
        with suppress(ProcessLookupError):
            os.kill(int(rng.choice(sorted(pids_in(notes)))), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = parallel.run(job, range(24), save=kept_in(kept), **workers)
    except LostWorkerError:
        assert executor is None, "dask replaces a worker"
        assert not {pid for pid in pids_in(notes) if alive(pid)}
        found = parallel.run(job, range(24), save=kept_in(kept), **workers)
    finally:
        over.set()
        killer.join()
    assert np.stack(found).tobytes() == expected(24).tobytes()


@pytest.mark.repeated
def test_a_killed_worker_of_dask_changes_no_bit(tmp_path, attempts):
    tally = attempts("kill -9 of a worker of dask", "the same bits")
    for k in range(repetitions(30, 1)):
        with tally.attempt(f"seed {SEED + k}"), dask_cluster() as executor:
            killed_in_the_middle(executor, tmp_path / str(k), SEED + k)


@pytest.mark.repeated
def test_a_killed_process_ends_the_call_and_the_next_ends_with_the_same_bits(tmp_path, attempts):
    tally = attempts("kill -9 of a process of this machine", "the next call goes on to the same bits")
    for k in range(repetitions(30, 1)):
        with tally.attempt(f"seed {SEED + k}"):
            killed_in_the_middle(None, tmp_path / str(k), SEED + k)


# drivers that are killed


DRIVER = """
import os, sys, time
from pathlib import Path
import numpy as np
from pastmaster import parallel

processes, folder, notes = sys.argv[1] == "processes", Path(sys.argv[2]), Path(sys.argv[3])

def job(item):
    (notes / f"pid-{os.getpid()}").touch()
    time.sleep(0.05)
    return np.random.default_rng(item).random(20)

if __name__ == "__main__":
    keep = parallel.Saved(folder, "key", lambda r: {"r": np.stack(r)}, lambda arrays, _: list(arrays["r"]))
    found = parallel.run(job, range(40), n_jobs=2, processes=processes, save=keep)
    sys.stdout.write(np.stack(found).tobytes().hex())
"""


def driver_killed(kind: str, place: Path, seed: int) -> None:
    """The driver is killed at some moment after the first chunk, no worker outlives it, and the same call goes on."""
    folder, notes, script = place / "chunks", place / "notes", place / "driver.py"
    for made in (folder, notes):
        made.mkdir(parents=True)
    script.write_text(DRIVER)
    command = [sys.executable, script, kind, folder, notes]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: list(folder.glob("*.npz")) or driver.poll() is not None, "no chunk was kept")
    time.sleep(float(np.random.default_rng(seed).random()))
    driver.kill()
    driver.wait()
    workers = set(pids_in(notes)) - {driver.pid}
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*.npz")}
    wait_until(lambda: not any(map(alive, workers)), f"{workers} outlive their driver")
    second = subprocess.run(command, capture_output=True, check=True, timeout=WAIT)
    assert second.stdout.decode() == expected(40).tobytes().hex()
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "what was kept was computed again"


@pytest.mark.repeated
@pytest.mark.parametrize("kind", [pytest.param("threads", marks=pytest.mark.soak), "processes"])
def test_a_killed_driver_leaves_no_worker_and_goes_on_to_the_same_bits(kind, tmp_path, attempts):
    tally = attempts(f"kill -9 of the driver, {kind}", "no worker is left, resumed to the same bits")
    for k in range(repetitions(12, 1)):
        with tally.attempt(f"seed {SEED + k}"):
            driver_killed(kind, tmp_path / str(k), SEED + k)


# Ctrl-C in one process, again and again


STORM = """
import os, random, signal, sys, threading, time
from pastmaster import parallel

seed, times = int(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGINT, signal.default_int_handler)

def job(item):
    time.sleep(0.05)
    return item

def attempt(rng):
    over = threading.Event()
    def press():
        over.wait(rng.random() * 1.5)
        for _ in range(rng.choice((1, 1, 2))):
            if not over.is_set():
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1 * rng.random())
    presser = threading.Thread(target=press)
    try:
        try:
            presser.start()
            parallel.run(job, range(40), n_jobs=2, processes=True)
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
    assert parallel.run(job, range(4), n_jobs=2, processes=True) == [0, 1, 2, 3]
    print("works", flush=True)
"""


@pytest.mark.repeated
def test_ctrl_c_at_any_moment_leaves_no_process_and_the_next_call_works(tmp_path, attempts):
    tally = attempts("Ctrl-C during a call, processes", "no process is left, the next call works")
    times = repetitions(60, 2)
    (tmp_path / "script.py").write_text(STORM)
    program = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", str(SEED), str(times)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
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
