"""A repository under faults: writers killed at any moment, servers killed, eight writers at once, damaged bytes.

What was acknowledged is there, whole; what is damaged is named, and never returned. The counts in brackets are those of
``make soak``; ``make test`` does a twentieth or less.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
import sqlalchemy as sa
from attempts import Tally
from faults import TASKS, acknowledge, acknowledged, canonical, repetitions, report, small_task
from postgres import Server, start
from seams import Database, arrays, location, metadata
from torn import tear

from pastmaster import ContinualTransfer, DamagedError, Repository, cross_values, solve

pytestmark = pytest.mark.repeated

KILLS = repetitions(1000, 12)
WRITERS = 8
DAMAGE = "each lost record is named, nothing wrong is returned"
RECONNECT_SECONDS = 10.0


def assert_is_there(repository: Repository, kind: str, acks: list[tuple[int, int]]) -> None:
    """Every acknowledged task is stored once, bit for bit, with its policy; and nothing is torn."""
    assert repository.check() == []
    records = {record.id: record for record in repository.records()}
    for number, task_id in acks:
        task = TASKS[kind](number)
        assert canonical(repository.task(task_id)) == canonical(task)
        assert canonical(repository.policy(records[task_id].own_policy)) == canonical(solve(task).policy)
    assert len({record.digest for record in records.values()}) == len(records) == len(repository)


def assert_values_are_right(repository: Repository) -> None:
    """U is what it would be if it were computed at once."""
    U = cross_values(list(repository.tasks()), list(repository.policies()))
    np.testing.assert_array_equal(repository.cross_values(), U)


def add_forever(place: str, log: Path, kind: str, first: int, moment: int | None = None) -> None:
    """Add tasks and acknowledge each, until killed."""
    acknowledge(log, "begins")
    if moment is not None:
        faults.die_at(moment)
    with Repository(place) as repository:
        for number in itertools.count(first):
            acknowledge(log, number, repository.add(TASKS[kind](number)))


def acks_of(log: Path) -> list[tuple[int, int]]:
    return [(int(line[0]), int(line[1])) for line in acknowledged(log) if line[0] != "begins"]


@pytest.fixture(scope="module")
def places(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """New places of either kind, each in a ``with``."""

    def make(database: str) -> Any:
        return faults.fresh_place(postgres_server if database == "postgres" else None, tmp_path_factory.mktemp("place"))

    return make


@pytest.mark.parametrize(
    ("database", "kind", "share"),
    [("sqlite", "small", 0.4), ("sqlite", "surveillance", 0.3), ("postgres", "small", 0.3)],
)
def test_a_writer_killed_at_any_moment_loses_nothing_acknowledged(
    places: Callable[[str], Any], database: str, kind: str, share: float, rng: np.random.Generator, tmp_path: Path,
    attempts: Callable[[str, str], Tally],
) -> None:  # fmt: skip
    """[1000 kills in all]: half of them anywhere in time, half between two statements or around a commit."""
    tally = attempts(f"kill -9 during adds, {database}", "no acknowledged change lost, none torn")
    left, acks = round(KILLS * share), 0
    while left:
        log = tmp_path / f"{left}.log"
        with places(database) as place:
            for _ in range(min(left, 10)):
                kill_a_writer(place, log, kind, rng)
                left -= 1
                with tally.attempt(f"{database}, {kind}, {left} left"), Repository(place) as repository:
                    assert_is_there(repository, kind, acks_of(log))
            with Repository(place) as repository:
                assert_values_are_right(repository)
                repository.add(TASKS[kind](4000))
            acks += len(acks_of(log))
    report(f"kill -9 during adds, {database}, {kind}: {acks} acknowledged tasks")


def kill_a_writer(place: str, log: Path, kind: str, rng: np.random.Generator) -> None:
    """Start a writer that goes on after what was acknowledged, and kill it."""
    lines, first = len(acknowledged(log)), max((number for number, _ in acks_of(log)), default=-1) + 1
    if rng.random() < 0.5:
        process = faults.start(add_forever, place, log, kind, first, int(rng.integers(400)))
        process.join(faults.PATIENCE)
    else:
        process = faults.start(add_forever, place, log, kind, first)
        faults.wait_for_lines(log, lines + (2 if rng.random() < 0.8 else 1), process)
        time.sleep(rng.uniform(0.0, 0.15))
        process.kill()
        process.join(faults.PATIENCE)
    assert process.exitcode == -9, "the writer ended by itself"


def add_until(place: str, log: Path, writer: int, stop: Path) -> None:
    """Add tasks of this writer's own and acknowledge each with the time, until told to stop."""
    with Repository(place) as repository:
        for number in itertools.count(writer * 10**6):
            acknowledge(log, number, repository.add(small_task(number)), time.monotonic())
            if stop.exists():
                return


def test_a_server_killed_under_load_loses_nothing_acknowledged(
    tmp_path: Path, rng: np.random.Generator, attempts: Callable[[str, str], Tally]
) -> None:
    """[8 times]: three writers notice nothing but a pause, and go on within ten seconds of the server's return."""
    stop, logs = tmp_path / "stop", [tmp_path / f"{writer}.log" for writer in range(3)]
    folder = tempfile.mkdtemp(prefix="pastmaster")  # pytest closes its own folders to others
    server, pauses = start(folder, "-c", "wal_writer_delay=10s"), []  # nothing comes to the disk by itself
    try:
        Repository(server.url).close()
        writers = [faults.start(add_until, server.url, log, i, stop) for i, log in enumerate(logs)]
        for log, process in zip(logs, writers, strict=True):
            faults.wait_for_lines(log, 3, process)
        for _ in range(repetitions(8, 1)):
            time.sleep(rng.uniform(0.1, 0.6))
            server.kill()
            time.sleep(rng.uniform(0.0, repetitions(2, 1)))
            server.restart()
            ready = time.monotonic()
            for log, process in zip(logs, writers, strict=True):
                pauses.append(first_ack_after(ready, log, process) - ready)
        stop.touch()
        faults.finish(*writers)
        with Repository(server.url) as repository:
            acks = [ack for log in logs for ack in acks_of(log)]
            assert_is_there(repository, "small", acks)
            assert len(repository) == len(acks)
            assert_values_are_right(repository)
    finally:
        server.stop()
        shutil.rmtree(folder)
    assert max(pauses) < RECONNECT_SECONDS + 20 * typical_gap(logs)  # which is long on a busy machine
    attempts("PostgreSQL killed under three writers", "no acknowledged change lost").survived(repetitions(8, 1))
    report(
        f"PostgreSQL killed {repetitions(8, 1)} times: {len(acks)} acknowledged tasks of 3 writers, 0 lost; "
        f"first add after at most {max(pauses):.1f} s"
    )


def test_a_crash_that_gives_a_transactions_number_to_another_loses_nothing() -> None:
    """The server dies before a commit reaches the disk; after its return another transaction has the same number."""
    folder = tempfile.mkdtemp(prefix="pastmaster")
    server, numbers = start(folder), []
    try:
        database = Database(server.url, create=True)
        crash = [True]

        def before_commit(connection: sa.Connection) -> None:
            if numbers and crash:
                crash.clear()
                server.kill()
                server.restart()
                engine = sa.create_engine(
                    location.parse(server.url), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool
                )
                with engine.connect() as other:  # each statement is a transaction
                    while other.execute(sa.text("SELECT txid_current()")).scalar() < numbers[0]:
                        pass

        def work(connection: sa.Connection) -> int:
            numbers.append(int(connection.execute(sa.text("SELECT txid_current()")).scalar() or 0))
            connection.execute(sa.text("UPDATE sequences SET last = 17 WHERE name = 'tasks'"))
            return len(numbers)

        sa.event.listen(database.backend.engine, "commit", before_commit)
        assert database.write(work) == 2  # the first was lost with the server
        last = sa.text("SELECT last FROM sequences WHERE name = 'tasks'")
        assert database.read(lambda connection: connection.execute(last).scalar()) == 17
        database.close()
    finally:
        server.stop()
        shutil.rmtree(folder)


def first_ack_after(moment: float, log: Path, process: Any) -> float:
    """When a writer was first acknowledged after a moment."""
    deadline = moment + faults.PATIENCE
    while not (last := acknowledged(log)[-1:]) or float(last[0][2]) < moment:
        assert process.is_alive(), "a writer died"
        assert time.monotonic() < deadline, "a writer does not go on"
        time.sleep(0.01)
    return min(float(line[2]) for line in acknowledged(log) if float(line[2]) >= moment)


def typical_gap(logs: list[Path]) -> float:
    """The seconds between two acknowledgements of a writer, those with a kill between them being few."""
    return float(np.median(np.concatenate([np.diff([float(line[2]) for line in acknowledged(log)]) for log in logs])))


def add_some(place: str, log: Path, writer: int, count: int, together: Any) -> None:
    """Open the same new place, add tasks of this writer's own, and the same one task as all the others."""
    together.wait(faults.PATIENCE)
    with Repository(place) as repository:
        for number in range(writer * count, (writer + 1) * count):
            acknowledge(log, number, repository.add(small_task(number)))
            if number % count == count // 2:
                together.wait(faults.PATIENCE)
                acknowledge(log, 10**6, repository.add(small_task(10**6)))


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_eight_writers_at_once(places: Callable[[str], Any], database: str, tmp_path: Path) -> None:
    """[8 x 60 adds]: all of them are there, and what all of them add at once is there once."""
    count = repetitions(60, 4)
    together = faults.fork_server().Barrier(WRITERS)
    logs = [tmp_path / f"{writer}.log" for writer in range(WRITERS)]
    with places(database) as place:
        began = time.monotonic()
        faults.finish(*(faults.start(add_some, place, log, i, count, together) for i, log in enumerate(logs)))
        seconds = time.monotonic() - began
        with Repository(place) as repository:
            acks = [ack for log in logs for ack in acks_of(log)]
            assert len(acks) == WRITERS * (count + 1)
            assert len({task_id for number, task_id in acks if number == 10**6}) == 1
            assert_is_there(repository, "small", acks)
            assert len(repository) == WRITERS * count + 1
            assert_values_are_right(repository)
    report(f"8 writers on {database}: {WRITERS * count} of {WRITERS * count} adds, one shared row, {seconds:.1f} s")


def fill(place: str | Path) -> None:
    """Tasks, a clustering, and two streams: one that uses the tasks' models and one that learns and estimates."""
    options = {"restarts": 2, "iterations": 500}
    with Repository(place) as repository:
        for number in range(5):
            repository.add(small_task(number))
        repository.cluster(rng=np.random.default_rng(1), episodes=20, **options)
        for name, first, model in (("known", 3, True), ("learned", 7, False)):
            agent = ContinualTransfer(
                repository, episodes=20, recluster_every=2, rng=np.random.default_rng(2), clustering=options,
                name=name, model=model, bounds=(-20.0, 20.0), evaluation_episodes=None if model else 4,
            )  # fmt: skip
            agent.run(map(small_task, range(first, first + 4)))


Damage = Callable[[bytearray, np.random.Generator, np.ndarray], None]


def flip(count: int, anywhere: bool = True) -> Damage:
    """Flip bits: anywhere, or in what leads to the arrays rather than in them."""

    def damage(data: bytearray, rng: np.random.Generator, trees: np.ndarray) -> None:
        for index in rng.choice(len(data) if anywhere else trees, size=count).tolist():
            data[index] ^= 1 << int(rng.integers(8))

    return damage


def cut(data: bytearray, rng: np.random.Generator, trees: np.ndarray) -> None:
    """Lose the end."""
    del data[int(rng.integers(len(data))) :]


def blank(data: bytearray, rng: np.random.Generator, trees: np.ndarray) -> None:
    """Lose a block of the disk."""
    first = int(rng.integers(len(data) // 4096)) * 4096
    data[first : first + 4096] = bytes(4096)


DAMAGES: dict[str, tuple[Damage, int]] = {
    "one bit anywhere": (flip(1), 200),
    "one bit of a tree": (flip(1, anywhere=False), 200),
    "five bits": (flip(5), 30),
    "the end cut off": (cut, 30),
    "4 kB of zeros": (blank, 30),
}


def judge_copies(source: Path, kind: str, seed: int, log: Path) -> None:
    """Damage copies of a file one after another, and write down what became of each."""
    damage, count = DAMAGES[kind]
    with Repository(source) as repository:
        original = faults.Survey(repository)
        blobs = repository.database.read(
            lambda connection: connection.execute(sa.select(arrays.c.data)).scalars().all()
        )
    whole, rng = source.read_bytes(), np.random.default_rng([seed, *kind.encode()])
    inside = np.frombuffer(whole, np.uint8) == 0
    for blob in blobs:
        if (first := whole.find(blob)) >= 0:
            inside[first : first + len(blob)] = True
    for attempt in range(repetitions(count, max(6, count // 20))):
        copy = log.with_suffix(f".{attempt}.db")
        data = bytearray(whole)
        damage(data, rng, np.flatnonzero(~inside))
        copy.write_bytes(data)
        acknowledge(log, faults.judge(copy, original))
        copy.unlink()


def judge_torn(source: Path, seed: int, log: Path) -> None:
    """Flip a bit in the journal of a commit that was cut short, which leads back to the file as it was."""
    with Repository(source) as repository:
        original = faults.Survey(repository)
    before, rng = source.read_bytes(), np.random.default_rng([seed, 20])
    other = log.with_suffix(".after.db")
    other.write_bytes(before)
    with Repository(other) as repository:
        repository.add(small_task(99))
    for attempt in range(repetitions(100, 6)):
        copy = log.with_suffix(f".{attempt}.db")
        tear(copy, before, other.read_bytes(), rng)
        journal = Path(f"{copy}-journal")
        data = bytearray(journal.read_bytes())
        if attempt:  # the first is not damaged
            data[int(rng.integers(len(data) if attempt % 2 else 1024))] ^= 1 << int(rng.integers(8))
        journal.write_bytes(data)
        acknowledge(log, faults.judge(copy, original))
        copy.unlink()
        journal.unlink(missing_ok=True)


def verdicts_of(log: Path) -> list[faults.Verdict]:
    return [faults.Verdict(**json.loads(" ".join(line))) for line in acknowledged(log)]


def assert_nothing_wrong(name: str, verdicts: list[faults.Verdict], tally: Tally) -> None:
    """Whatever was lost was named, and nothing wrong was returned."""
    for verdict in verdicts:
        tally.failed("; ".join(verdict.problems)) if verdict.problems else tally.survived()
    became = Counter(
        "refused as a whole" if verdict.refused else "lost pieces, all named" if verdict.lost
        else "named, nothing lost" if verdict.named else "hit nothing"
        for verdict in verdicts
    )  # fmt: skip
    report(f"damage, {name}: {len(verdicts)} copies: {', '.join(f'{n} {what}' for what, n in became.items())}")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "repository.db"
    fill(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name], "closed, it is one file"
    return path


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_to_the_file_is_named_and_never_returned(
    filled: Path, kind: str, seed: int, tmp_path: Path, attempts: Callable[[str, str], Tally]
) -> None:
    """[490 damaged copies, 400 of them by one bit]: judged in a process of its own, which must not crash or hang."""
    log = tmp_path / "log"
    faults.finish(faults.start(judge_copies, filled, kind, seed, log))
    verdicts = verdicts_of(log)
    assert any(verdict.refused or verdict.lost for verdict in verdicts), "the damage must be felt"
    assert_nothing_wrong(kind, verdicts, attempts(f"damage in the file: {kind}", DAMAGE))


def test_damage_to_a_journal_is_named_and_never_returned(
    filled: Path, seed: int, tmp_path: Path, attempts: Callable[[str, str], Tally]
) -> None:
    """[100 flips]: what was stored before the commit that was cut short is there, or named."""
    log = tmp_path / "log"
    faults.finish(faults.start(judge_torn, filled, seed, log))
    verdicts = verdicts_of(log)
    assert verdicts[0] == faults.Verdict(), "without damage, the journal leads back to what was"
    assert_nothing_wrong("journal", verdicts, attempts("damage in the journal of a commit cut short: one bit", DAMAGE))


def test_a_copy_without_damage_raises_no_alarm(filled: Path, tmp_path: Path) -> None:
    with Repository(filled) as repository:
        original = faults.Survey(repository)
    assert None not in original.found.values()
    assert [name for name, whole in original.wholes.items() if whole is None] == ["bounds"]  # some have no model
    shutil.copy(filled, tmp_path / "copy.db")
    assert faults.judge(tmp_path / "copy.db", original) == faults.Verdict()


def test_an_array_in_the_place_of_another_is_named(filled: Path, tmp_path: Path) -> None:
    """Whole and with its own checksum, but of another record: one array of every name is put elsewhere."""
    with Repository(filled) as repository:
        original = faults.Survey(repository)
    shutil.copy(filled, copy := tmp_path / "copy.db")
    engine, spoilt = sa.create_engine(location.parse(copy)), set()
    with engine.begin() as connection:
        stored = connection.execute(sa.select(arrays).order_by(arrays.c.owner_id)).mappings().all()
        for owner, name in sorted({(row["owner"], row["name"]) for row in stored}):
            same = [row for row in stored if (row["owner"], row["name"]) == (owner, name)]
            for one, other in itertools.permutations(same, 2):
                if one["size"] == other["size"] and one["data"] != other["data"]:
                    here = [arrays.c[key] == one[key] for key in ("owner", "owner_id", "name")]
                    content = {key: other[key] for key in ("data", "size", "sha256")}
                    connection.execute(sa.update(arrays).where(*here).values(content))
                    spoilt.add(f"{owner} {one['owner_id']}")
                    break
    engine.dispose()
    verdict = faults.judge(copy, original)
    assert verdict.problems == []
    assert spoilt <= set(verdict.named)
    assert {place.split()[0] for place in spoilt} == {"tasks", "policies", "runs", "clusterings"}


@contextmanager
def one_row_spoilt(place: str, rng: np.random.Generator) -> Iterator[str]:
    """A row of any table altered in one column, gone, or an array with what belongs to another; then as before."""
    engine = sa.create_engine(location.parse(place))
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":  # references are not checked, nor are they in SQLite unless asked
                connection.exec_driver_sql("SET session_replication_role = replica")
            before = {table: connection.execute(sa.select(table)).mappings().all() for table in metadata.sorted_tables}
            what = faults.spoil(connection, before, rng)
        yield what
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.exec_driver_sql("SET session_replication_role = replica")
            for table, found in before.items():
                connection.execute(sa.delete(table))
                if found:
                    connection.execute(sa.insert(table), [dict(row) for row in found])
    finally:
        engine.dispose()


def judge_rows(place: str, seed: int, log: Path) -> None:
    """Spoil one row after another, and write down what became of each."""
    with Repository(place) as repository:
        original = faults.Survey(repository)
    rng = np.random.default_rng([seed, len(place)])
    for _ in range(repetitions(100, 2 if "://" in place else 6)):  # a server answers each of many questions
        with one_row_spoilt(place, rng) as what:
            verdict = faults.judge(place, original)
        verdict.problems = [f"{what}: {problem}" for problem in verdict.problems]
        acknowledge(log, verdict)
    assert faults.judge(place, original) == faults.Verdict(), "the spoiling left traces"


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_damage_to_rows_is_named_and_never_returned(
    places: Callable[[str], Any], database: str, seed: int, tmp_path: Path, attempts: Callable[[str, str], Tally]
) -> None:
    """[100 rows]: one column altered, the row gone, or an array put in another's place."""
    log = tmp_path / "log"
    with places(database) as place:
        fill(place)
        faults.finish(faults.start(judge_rows, place, seed, log))
    tally = attempts(f"a row spoilt, {database}", DAMAGE)
    assert_nothing_wrong(f"rows of {database}", verdicts_of(log), tally)


# What once went unnamed, or was named in nobody's words


def test_a_key_of_an_index_that_leads_astray_those_who_read_its_neighbour(filled: Path, tmp_path: Path) -> None:
    """One bit turns "tasks" into "task3" where an index has it: every fifth such place is tried.

    It led astray those who looked an array up by its name, and not those who read them all.
    """
    with Repository(filled) as repository:
        original = faults.Survey(repository)
    whole, lost = filled.read_bytes(), 0
    places = [match.end() - 1 for match in re.finditer(b"tasks.moves", whole, re.DOTALL)]
    for k, place in enumerate(places[::5]):
        data, copy = bytearray(whole), tmp_path / f"copy{k}.db"
        data[place - len(b".moves")] ^= 0x40
        copy.write_bytes(data)
        verdict = faults.judge(copy, original)
        assert verdict.problems == []
        lost += verdict.lost
    assert lost


@pytest.mark.parametrize("damage", ["name = name || 'x'", "settings = '{'", "settings = x'c328'", "name = x'c328'"])
def test_runs_of_a_stream_whose_record_is_damaged_are_not_lost(filled: Path, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(filled, copy)
    with sqlite3.connect(copy) as connection:
        connection.execute(f"UPDATE streams SET {damage} WHERE id = 1")
    connection.close()
    with Repository(copy) as repository:
        runs = [run for run in repository.runs() if run.stream_id == 1]
        assert runs
        assert {run.stream_name for run in runs} == {""}
        assert "streams 1" in {found.place for found in repository.check()}


@pytest.mark.parametrize("byte", [0, 11])
def test_runs_of_streams_whose_page_is_damaged_are_not_lost(filled: Path, tmp_path: Path, byte: int) -> None:
    """Its kind or the place of a record on it: SQLite then refuses even to end the transaction that read it."""
    with sqlite3.connect(filled) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'streams'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with Repository(filled) as repository:
        numbers = [run.id for run in repository.runs()]
    for bit in range(0, 8, 1 if faults.SOAK else 3):
        copy, data = tmp_path / f"{bit}.db", bytearray(filled.read_bytes())
        data[(page - 1) * size + byte] ^= 1 << bit
        copy.write_bytes(data)
        with Repository(copy) as repository:
            assert [run.id for run in repository.runs()] == numbers
            assert repository.check()


def test_an_array_whose_bytes_became_another_type_is_damage(filled: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(filled, copy)
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE arrays SET data = 7 WHERE owner = 'tasks' AND owner_id = 1 AND name = 'reward'")
        connection.execute("UPDATE arrays SET size = 'x' WHERE owner = 'tasks' AND owner_id = 2 AND name = 'reward'")
    connection.close()
    with Repository(copy) as repository:
        for number in (1, 2):
            with pytest.raises(DamagedError, match=rf"tasks {number}: array 'reward': is stored as"):
                repository.task(number)
        assert {"tasks 1", "tasks 2"} <= {found.place for found in repository.check()}


def test_text_of_the_schema_that_is_no_text_is_damage(filled: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    content = filled.read_bytes()
    copy.write_bytes(content.replace(b"CREATE TABLE tasks", b"CREATE\xce\x01ABLE tasks", 1))
    with pytest.raises(DamagedError, match=r"^Repository: .*copy.db is damaged"):
        Repository(copy)
