"""A repository that grows with what it keeps: a hundred thousand two-target surveillance tasks, streamed.

The domain has 3,840 two-target tasks with one start. Here an agent may start anywhere on the grid: 8.8 million tasks.
"""

from __future__ import annotations

import itertools
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.measure import Row, machine, show, write
from pastmaster import Repository, TabularMDP, keep
from pastmaster.domains import surveillance
from pastmaster.repository.stack import Stack

MAX_LOSS, SIZES, MATRIX = 1.0, (10_000, 100_000), 5_000
KEPT = ((20, 1.0), (100, 1.0), (100, 0.1))  # policies kept, and the repository's max_loss
DRAWS = (2, 3)  # seeds of the tasks on which what is kept is judged


def tasks(seed: int) -> Iterator[TabularMDP]:
    """Two targets in different groups, a start anywhere."""
    rng, groups = np.random.default_rng(seed), surveillance.groups()
    while True:
        first, second = rng.choice(16, 2, replace=False)
        one = surveillance.task([int(rng.choice(groups[first])), int(rng.choice(groups[second]))])
        start = np.zeros(one.n_states)
        start[rng.integers(surveillance.N_CELLS)] = 1.0
        yield TabularMDP(
            one.next_state, one.reward, terminated=one.terminated, gamma=one.gamma, horizon=one.horizon,
            start=start, name=f"{one.name} from {start.argmax()}", params=one.params,
        )  # fmt: skip


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write("scale", machine("sqlalchemy"), [*streaming(Path(folder) / "tasks.db"), *against_matrix(Path(folder))])


def streaming(place: Path, total: int = SIZES[-1], report: bool = False) -> list[Row]:
    """The time of the whole stream, of an add at each size (mean of 1,000), and of a first add."""
    begun, cpu, per_add, stream = time.perf_counter(), time.process_time(), dict[int, tuple[float, float]](), tasks(0)
    lines = []
    with Repository(place, max_loss=MAX_LOSS) as repository:
        for n in range(1000, total + 1, 1000):
            wall, used = time.perf_counter(), time.process_time()
            repository.add_many(itertools.islice(stream, 1000))
            per_add[n] = (time.perf_counter() - wall) / 1000, (time.process_time() - used) / 1000
            if report:
                print(n, repository, per_add[n], flush=True)
            if n == SIZES[0]:
                cold = first_add(place)
                lines.append(Row("the first add of a process, at 10,000 tasks", show(cold), "", "", "< 1 s", cold < 1))
        whole, used = time.perf_counter() - begun, time.process_time() - cpu
        memory, disk = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, place.stat().st_size / 1e9
        shown = f"{whole / 60:.1f} min ({used / 60:.1f} of one core), {memory:.2f} GB, {disk:.2f} GB on disk"
        met = whole < 1800 and memory < 4
        n_policies = len(repository.policy_records())
        what = f"{total:,} tasks streamed, {n_policies} policies kept within {MAX_LOSS:g}"
        lines.insert(0, Row(what, shown, "", "", "< 30 min, < 4 GB", met))
    if total >= SIZES[-1]:
        (wall, used), (wall_before, used_before) = per_add[SIZES[1]], per_add[SIZES[0]]
        ratio = used / used_before
        figure = f"{show(wall)} ({show(used)} of one core)"
        peer = f"{show(wall_before)} ({show(used_before)}) at {SIZES[0]:,}"
        what = f"an add at {SIZES[1]:,}"
        lines.append(Row(what, figure, peer, f"{ratio:.2f}x of one core", "<= 1.5x", ratio <= 1.5))
    return lines


def first_add(place: Path) -> float:
    """The seconds of the first add of a process that has imported the library."""
    script = (
        "import sys, time\nfrom benchmarks.scale import tasks\nfrom pastmaster import Repository\n"
        "task = next(tasks(12345)); r = Repository(sys.argv[1]); t = time.perf_counter(); r.add(task)\n"
        "print(time.perf_counter() - t)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(place)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def full_matrix(found: Sequence[TabularMDP]) -> np.ndarray:
    """U [n, n] of tasks, each under the own policy of each."""
    from pastmaster import solve

    n = len(found)
    stack, U = Stack().joined({j: np.asarray(solve(task).policy) for j, task in enumerate(found)}), np.empty((n, n))
    for i, task in enumerate(found):
        U[i] = stack.values(task, range(n))
    return U


def against_matrix(folder: Path, n: int = MATRIX) -> list[Row]:
    """What is kept of a stream, valued in all of its tasks, against what the full matrix keeps."""
    lines = []
    for seed in DRAWS:
        found = [*itertools.islice(tasks(seed), n)]
        U = full_matrix(found)
        for number, (k, max_loss) in enumerate(KEPT):
            lines.append(_kept(folder / f"matrix-{seed}-{number}.db", found, U, k, max_loss, seed))
            print(lines[-1], flush=True)
    return lines


def _kept(place: Path, found: Sequence[TabularMDP], U: np.ndarray, k: int, max_loss: float, seed: int) -> Row:
    with Repository(place, max_loss=max_loss) as repository:
        ids = repository.add_many(found)
        own = {record.id: record.own_policy for record in repository.records()}
        founders = {own[number]: i for i, number in reversed([*enumerate(ids)])}  # a task may come again
        whole = keep(U, k=k, certify=False, rng=0)
        begun = time.perf_counter()
        kept = repository.keep(k=k, rng=0, time_limit=10)
        took = time.perf_counter() - begun
        columns = [founders[number] for number in repository.source_ids()]
        first = [i for i, number in enumerate(ids) if number not in ids[:i]]
    truth = float((U.max(axis=1) - U[:, columns].max(axis=1))[first].mean())
    ratio, told = truth / whole.mean_loss, kept.over_all
    assert told is not None
    held = told.low - 1e-9 <= truth <= told.high + 1e-9
    shown = f"{truth:.4g} ({told.low:.4g} to {told.high:.4g} told, at least {told.lower_bound:.4g}), {show(took)}"
    what = f"mean loss of {k} kept of {len(founders)} (max_loss {max_loss:g}), {len(found):,} tasks of seed {seed}"
    return Row(what, shown, f"{whole.mean_loss:.4g}", f"{ratio:.3f}", "<= 1.05", ratio <= 1.05 and held)
