"""Faults made on purpose: processes killed anywhere, damaged files; and everything stored, in a form to compare."""

from __future__ import annotations

import functools
import itertools
import json
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from postgres import Server
from reference import random_mdp
from seams import RECORDS, arrays, metadata, read_matrix, rows, stored_runs
from sqlalchemy import event

from pastmaster import ContinualTransfer, Repository, RepositoryError, TabularMDP
from pastmaster.domains import surveillance
from pastmaster.repository import ClusteringRecord

SOAK = os.environ.get("PASTMASTER_SOAK") == "1"
PATIENCE = 2400.0 if SOAK else 240.0  # seconds after which a process counts as hanging, on a busy machine too


def repetitions(full: int, brief: int | None = None) -> int:
    """How often to do what is slow: in full under ``make soak``, else a tenth."""
    return full if SOAK else brief or max(1, full // 10)


def report(text: str) -> None:
    """A figure for people: pytest shows it with ``-s`` or ``-rP``."""
    print(f"\n{text}")


def small_task(number: int) -> TabularMDP:
    """One of any number of different tasks with 6 states and 3 actions."""
    task = random_mdp(np.random.default_rng([7, number]), n_outcomes=2, horizon=30)
    arrays = {name: getattr(task, name) for name in ("next_state", "reward", "probability", "terminated", "start")}
    return TabularMDP(**arrays, gamma=task.gamma, horizon=30, name=f"task {number}", params={"number": number})


def surveillance_task(number: int) -> TabularMDP:
    """One of 4096 different tasks of two v-locations."""
    return surveillance.task([number // 64 % 64, number % 64])


TASKS = {"small": small_task, "surveillance": surveillance_task}


@functools.cache
def fork_server() -> ForkServerContext:
    """Processes forked from one that has imported pastmaster and loaded its kernels: each starts in milliseconds."""
    folder = Path(tempfile.mkdtemp(prefix="pastmaster"))
    (folder / "warm_pastmaster.py").write_text("import faults\nfaults.warm()\n")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["warm_pastmaster"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *sys.path])
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before
    return context


def warm() -> None:
    """Load all that adding and continual transfer need."""
    import psycopg  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        with Repository(Path(folder) / "small.db") as repository:
            agent = ContinualTransfer(repository, episodes=3, recluster_every=2, rng=np.random.default_rng(0))
            agent.run(map(small_task, range(4)))
            agent = ContinualTransfer(
                repository, episodes=3, recluster_every=2, rng=np.random.default_rng(0), name="learned",
                model=False, bounds=(-20.0, 20.0),
            )  # fmt: skip
            agent.run([small_task(4)])
        with Repository(Path(folder) / "surveillance.db") as repository:
            repository.add(surveillance_task(0))


def start(function: Any, *arguments: Any) -> ForkServerProcess:
    """A process that runs ``function(*arguments)``."""
    process = fork_server().Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def finish(*processes: ForkServerProcess) -> None:
    """Wait for processes, all of which must end well."""
    deadline = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert codes == [0] * len(codes), f"exit codes {codes}: None hangs, -11 is a crash of the interpreter, 1 an error"


def fresh_place(server: Server | None, folder: Path) -> AbstractContextManager[str]:
    """A new place for a repository, on a server or in a folder."""
    return nullcontext(str(folder / "repository.db")) if server is None else server.fresh_database()


def acknowledge(log: Path, *words: Any) -> None:
    """Add a line to a log, on the disk before this returns."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
    os.fsync(descriptor)
    os.close(descriptor)


def acknowledged(log: Path) -> list[list[str]]:
    """The words of every whole line of a log."""
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [line.split() for line in lines]


def wait_for_lines(log: Path, count: int, process: ForkServerProcess) -> None:
    """Return when a log has so many lines, or the process has ended."""
    deadline = time.monotonic() + PATIENCE
    while len(acknowledged(log)) < count and process.is_alive():
        assert time.monotonic() < deadline, f"{log} has {len(acknowledged(log))} lines, must have {count} by now"
        time.sleep(0.001)


def count_moments() -> Iterator[int]:
    """Counts every moment at which this process is about to send a statement, has sent one, commits, or has done so."""
    return _listen(lambda: None)


def die_at(moment: int) -> None:
    """Kill this process at one of those moments."""
    counter = itertools.count()

    def die() -> None:
        if next(counter) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    _listen(die)


def _listen(act: Any) -> Iterator[int]:
    counter = itertools.count()

    def happens(*_: Any) -> None:
        next(counter)
        act()

    for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(sa.Engine, name, happens)
    event.listen(sa.pool.Pool, "checkin", happens)
    return counter


def canonical(thing: Any) -> Any:
    """Equal for things that are the same bit for bit, and only for them."""
    if isinstance(thing, np.ndarray):
        return "array", thing.dtype.str, thing.shape, thing.tobytes()
    if isinstance(thing, float):
        return "float", thing.hex()
    if is_dataclass(thing):
        return type(thing).__name__, [canonical(getattr(thing, field.name)) for field in fields(thing)]
    if isinstance(thing, Mapping):
        return "mapping", sorted((str(key), canonical(value)) for key, value in thing.items())
    if isinstance(thing, str | bytes | int | None):
        return thing
    if isinstance(thing, Sequence):
        return [canonical(inner) for inner in thing]
    raise TypeError(f"cannot compare a {type(thing).__name__}")


def dump(repository: Repository) -> dict[str, list[Any]]:
    """Every row of every table but the repository's own identity, bit for bit."""

    def read(connection: sa.Connection) -> dict[str, list[Any]]:
        tables = {
            table.name: connection.execute(sa.select(table)).all()
            for table in metadata.sorted_tables
            if table.name != "identity"
        }
        return {name: sorted(repr(tuple(row)) for row in found) for name, found in tables.items()}

    return repository.database.read(read)


Piece = tuple[Any, ...]
READERS: dict[str, Callable[..., Any]] = {
    "task": lambda r, i: r.task(i),
    "policy": lambda r, j: r.policy(j),
    "row": lambda r, table, i: r.database.read(lambda c: rows.fetch(c, table, [i])),
    "run": lambda r, stream, position: _run(r, stream, position),
    "clustering": lambda r, k: r.database.read(
        lambda c: ClusteringRecord.of(rows.fetch(c, "clusterings", [k])[0]).arrays(c)
    ),
    "values": lambda r, i, *js: _values(r, "values", i, js),
    "errors": lambda r, i, *js: _values(r, "errors", i, js),
}
MATRICES = ("values", "errors")
WHOLES: dict[str, Callable[[Repository], Any]] = {
    "records": lambda r: r.records(),
    "tasks": lambda r: list(r.tasks()),
    "policies": lambda r: list(r.policies()),
    "cross values": lambda r: r.cross_values(),
    "bounds": lambda r: r.return_bounds(),
    "clusterings": lambda r: r.clusterings(),
    "latest clustering": lambda r: r.clustering(),
    "sources": lambda r: r.sources(),
}


def _values(repository: Repository, what: str, task: int, policies: Sequence[int]) -> Any:
    """Values of a row of U; of one alone the value itself."""
    found = repository.database.read(lambda connection: read_matrix(connection, [task], policies, what))[0].tolist()
    return found if len(policies) > 1 else found[0]


def _run(repository: Repository, stream: int, position: int) -> Any:
    """A run by its place in its stream; none is as good as a refusal."""
    found = stored_runs(repository.database, stream, position)
    if not found:
        raise RepositoryError("there is no such run")
    return [replace(run, stream_name="") for run in found]  # which is the stream's


def _refused(error: RepositoryError) -> None:
    """A refusal is one sentence."""
    if "\n" in str(error):
        raise AssertionError(f"not one sentence: {error}")


class Survey:
    """Everything a repository holds, read piece by piece and as a whole; what is refused is None.

    ``pieces`` tells for every piece of which records it is made: one of them is to blame if it cannot be had.
    """

    def __init__(self, repository: Repository, pieces: Mapping[Piece, set[str]] | None = None) -> None:
        self.repository = repository
        self.pieces = _pieces(repository) if pieces is None else pieces
        self.found = {
            piece: self._read(READERS[piece[0]], *piece[1:]) for piece in self.pieces if piece[0] not in MATRICES
        }
        for what in MATRICES:
            self._read_matrix(what)
        self.wholes = {name: self._read(read) for name, read in WHOLES.items()}

    def _read_matrix(self, what: str) -> None:
        """Row by row; where a row is refused value by value, and after that without the policies to blame."""
        wanted = [piece for piece in self.pieces if piece[0] == what]
        self.found |= dict.fromkeys(wanted)
        policies = sorted({policy for _, _, policy in wanted})
        for task in sorted({task for _, task, _ in wanted}):
            row = self._read(READERS[what], task, *policies)
            row = [self._read(READERS[what], task, policy) for policy in policies] if row is None else row
            found = {policy: value for policy, value in zip(policies, row, strict=True) if value is not None}
            self.found |= {(what, task, policy): value for policy, value in found.items()}
            policies = list(found) or policies

    def _read(self, read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return canonical(read(self.repository, *arguments))
        except RepositoryError as error:
            return _refused(error)


def _pieces(repository: Repository) -> dict[Piece, set[str]]:
    """What there is to read, and the records each piece is made of."""
    ids = {table: repository.database.read(lambda c, t=table: rows.numbers(c, t)) for table in RECORDS}
    tasks, policies = ids["tasks"], ids["policies"]
    found: dict[Piece, set[str]] = {("row", table, i): {f"{table} {i}"} for table in RECORDS for i in ids[table]}
    found |= {("task", i): {f"tasks {i}"} for i in tasks} | {("policy", j): {f"policies {j}"} for j in policies}
    found |= {("clustering", k): {f"clusterings {k}"} for k in ids["clusterings"]}
    for run in repository.database.read(lambda c: rows.fetch(c, "runs")):
        blame = {f"runs {run['id']}", f"tasks {run['task_id']}"}
        found |= {("run", run["stream_id"], run["position"]): blame}
    for what, i, j in itertools.product(MATRICES, tasks, policies):
        found[what, i, j] = {f"tasks {i}", f"policies {j}"}
    return found


@dataclass
class Verdict:
    """What became of a damaged repository: why it was refused as a whole, how many pieces are lost, what check() names.

    A problem is a piece that is wrong and returned all the same, or one that is lost and not named.
    """

    refused: str = ""
    lost: int = 0
    named: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return json.dumps(asdict(self))


def judge(place: str | Path, original: Survey) -> Verdict:
    """Read all of a repository that may be damaged, and compare with what it was."""
    verdict = Verdict()
    try:
        with Repository(place, create=False) as repository:
            damage = repository.check()
            now = Survey(repository, original.pieces)
    except RepositoryError as error:
        _refused(error)
        verdict.refused = str(error)
        return verdict
    named = {found.place for found in damage}
    verdict.named = sorted(named)
    for piece, blame in original.pieces.items():
        if now.found[piece] is None:
            verdict.lost += 1
            if not blame & named:
                verdict.problems.append(f"{piece} is lost, check() names only {sorted(named)}")
        elif now.found[piece] != original.found[piece]:
            verdict.problems.append(f"{piece} is wrong, nobody says so; check() names {sorted(named)}")
    for name, whole in original.wholes.items():
        if now.wholes[name] != whole and not named:
            verdict.problems.append(f"{name} changed, check() names nothing")
    return verdict


def altered(value: Any, rng: np.random.Generator) -> Any:
    """A value with one bit, digit or letter changed."""
    if isinstance(value, bytes):
        data = bytearray(value)
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        return bytes(data)
    if isinstance(value, str):
        index = int(rng.integers(len(value)))
        return value[:index] + chr(ord(value[index]) ^ 1) + value[index + 1 :]
    if isinstance(value, float):
        return float(np.frombuffer(altered(np.float64(value).tobytes(), rng))[0])
    return 1 if value is None else value ^ 1 << int(rng.integers(6))


def spoil(connection: sa.Connection, before: Mapping[sa.Table, Any], rng: np.random.Generator) -> str:
    """Alter a row of any table in one column, delete it, or give an array what belongs to another; says which."""
    tables = ["arrays", "arrays", "arrays", "sequences", *RECORDS]
    names = [name for name in tables if len(before[metadata.tables[name]])]
    table = metadata.tables[names[int(rng.integers(len(names)))]]
    row = dict(before[table][int(rng.integers(len(before[table])))])
    key = [column.name for column in table.primary_key]
    here = sa.and_(*(table.c[name] == row[name] for name in key))
    choice = rng.random()
    if choice < 0.2:
        connection.execute(sa.delete(table).where(here))
        return f"{table.name} {row[key[0]]} deleted"
    if table is arrays and choice < 0.5:
        same = [other for other in before[table] if (other["owner"], other["name"]) == (row["owner"], row["name"])]
        other = same[int(rng.integers(len(same)))]
        connection.execute(sa.update(table).where(here).values({n: other[n] for n in ("data", "size", "sha256")}))
        return f"array {row['name']} of {row['owner']} {row['owner_id']} as in {other['owner_id']}"
    column = list(row)[int(rng.integers(len(row)))]
    while True:
        value = altered(row[column], rng)
        try:
            with connection.begin_nested():
                connection.execute(sa.update(table).where(here).values({column: value}))
        except sa.exc.IntegrityError:  # what must be unique stays so
            continue
        return f"{table.name} {[row[name] for name in key]}: {column} {str(row[column])[:80]} -> {str(value)[:80]}"
