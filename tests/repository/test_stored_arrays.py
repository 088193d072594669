from __future__ import annotations

import hashlib
import io
import json
import pickle
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from repository_reference import constant_policy, random_task, random_tasks, same_bits
from seams import Packed, pack, records, rows, schema, unpack

from pastmaster import DamagedError, InvalidInputError, Repository
from pastmaster.files import LARGEST

DTYPES = ("bool", "int8", "int32", "int64", "float32", "float64", "complex128")
LAYOUTS = {
    "C": lambda array: array,
    "Fortran": np.asfortranarray,
    "strided": lambda array: array[::2, 1::3],
    "reversed": lambda array: array[::-1, ::-1],
    "transposed": lambda array: array.T,
    "empty": lambda array: array[:0],
    "flat": lambda array: array.ravel(),
    "0-d": lambda array: array[0, 0].reshape(()),
}
MEGABYTE = 2**20


def drawn(rng, dtype) -> np.ndarray:
    """Every bit pattern of a dtype, the infinities, the NaNs with their payloads and -0.0 among them."""
    if dtype == "bool":
        return rng.random((6, 9)) < 0.5
    return np.frombuffer(rng.bytes(54 * np.dtype(dtype).itemsize), dtype).reshape(6, 9)


def all_arrays(rng) -> dict[str, np.ndarray]:
    return {f"{d}_{k}".lower().replace("-", ""): LAYOUTS[k](drawn(rng, d)) for d in DTYPES for k in LAYOUTS}


# There and back


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_come_back_bit_for_bit(rng, dtype, layout):
    array = LAYOUTS[layout](drawn(rng, dtype))
    back = unpack(pack(array).of("tasks", 7, "reward"), "tasks", 7, "reward")
    assert same_bits(array, back)
    assert back.flags.f_contiguous == array.flags.f_contiguous or layout in ("strided", "reversed")
    assert not back.flags.writeable or back.size == 0


def test_arrays_come_back_bit_for_bit_from_a_database(place, rng):
    arrays = all_arrays(rng)
    assert len(arrays) == len(DTYPES) * len(LAYOUTS)
    with Repository(place) as repository:
        number = repository.database.write(lambda c: rows.insert(c, "streams", {"name": "s", "settings": {}}, arrays))
    with Repository(place) as reopened:
        ((found, back),) = reopened.database.read(lambda c: list(rows.fetch_arrays(c, "streams", [number])))
    assert found == number
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert same_bits(array, back[name]), name


@pytest.mark.parametrize(
    "array",
    [
        np.array([None]),
        np.array([print, len]),
        np.array([(1, None)], [("a", int), ("b", object)]),
        np.zeros(2, [("a", int)]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.zeros(2, "V8"),
    ],
    ids=["objects", "functions", "structured objects", "structured", "dates", "void"],
)
def test_what_is_not_plain_is_refused(array):
    with pytest.raises(InvalidInputError, match="must hold plain numbers or text"):
        pack(array)


# Planted


class Payload:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def signed(raw: bytes, size: int | None = None) -> Packed:
    """Packed as an honest array would be, with the right checksum; ``size`` may lie."""
    return sealed(zlib.compress(raw), len(raw) if size is None else size)


def sealed(data: bytes, size: int) -> Packed:
    return Packed(data, size, hashlib.sha256(data).hexdigest())


def npy(
    shape: object, descr: object = "<f8", body: bytes = b"", version: bytes = b"\x01\x00", padding: int = 0
) -> bytes:
    """A .npy file whose header may say anything."""
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b" " * padding + b"\n"
    length = len(header).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + length + header + body


def pickled_array(path: Path) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Payload(path)]), allow_pickle=True)
    return buffer.getvalue()


def bomb(head: bytes, gigabytes: int) -> bytes:
    """A zlib stream of a few megabytes that begins with ``head`` and goes on with gigabytes of zeros."""
    packer = zlib.compressobj(9)
    data = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    packer.compress(bytes(MEGABYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(MEGABYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    return data + block * (1024 * gigabytes)


def planted(path: Path) -> dict[str, Callable[[], Packed]]:
    """Blobs that an honest program never writes; ``path`` is what the pickles would make."""
    good = pack(np.arange(1000.0))
    raw = zlib.decompress(good.data)
    head = npy((10,), body=bytes(80))
    three = 3 * 2**30
    terabyte = npy((10**11,))
    many = npy((10**6,), body=bytes(10**4))
    return {
        "pickled object array": lambda: signed(pickled_array(path)),
        "raw pickle": lambda: signed(pickle.dumps(Payload(path))),
        "raw pickle, not compressed": lambda: sealed(pickle.dumps(Payload(path)), 100),
        "800 GB, honest size": lambda: signed(terabyte, len(terabyte) + 8 * 10**11),
        "800 GB, size of the bytes": lambda: signed(terabyte),
        "800 GB and a body": lambda: signed(npy((10**11,), body=bytes(800))),
        "more than the largest": lambda: signed(npy((LARGEST,), "|u1"), len(npy((LARGEST,), "|u1")) + LARGEST),
        "bomb, honest size": lambda: sealed(bomb(npy((three,), "|u1"), 3), len(npy((three,), "|u1")) + three),
        "bomb, honest size, small header": lambda: sealed(bomb(head, 3), len(head) + three),
        "bomb, small size, small header": lambda: sealed(bomb(head, 3), len(head)),
        "bomb, small size, honest header": lambda: sealed(bomb(npy((three,), "|u1"), 3), len(head)),
        "bomb in the header": lambda: sealed(bomb(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", 3), three),
        "1 GB said, 10 kB there": lambda: signed(npy((2**27,), body=bytes(10**4)), len(npy((2**27,))) + 2**30),
        "less than said": lambda: signed(many, len(npy((10**6,))) + 8 * 10**6),
        "truncated": lambda: sealed(good.data[: len(good.data) // 2], good.size),
        "empty": lambda: sealed(b"", good.size),
        "not compressed": lambda: sealed(raw, good.size),
        "wrong checksum": lambda: good._replace(sha256=hashlib.sha256(raw).hexdigest()),
        "one bit": lambda: good._replace(data=bytes([*good.data[:-9], good.data[-9] ^ 1, *good.data[-8:]])),
        "size too large": lambda: good._replace(size=good.size + 1),
        "size too small": lambda: good._replace(size=good.size - 1),
        "negative size": lambda: good._replace(size=-1),
        "size 0": lambda: good._replace(size=0),
        "negative shape": lambda: signed(npy((-10,), body=bytes(80))),
        "two negative": lambda: signed(npy((-2, -5), body=bytes(80))),
        "negative and 0": lambda: signed(npy((5, -1, 0))),
        "0 and far too long": lambda: signed(npy((0, 10**30))),
        "a hundred axes": lambda: signed(npy((1,) * 100, body=bytes(8))),
        "true as a length": lambda: signed(npy((True,), body=bytes(8))),
        "float shape": lambda: signed(npy((1.0,), body=bytes(8))),
        "text of no length": lambda: signed(npy((5,), "<U0")),
        "objects": lambda: signed(npy((10,), "|O", bytes(80))),
        "structured": lambda: signed(npy((10,), [("a", "<f8")], bytes(80))),
        "structured objects": lambda: signed(npy((10,), [("a", "|O")], bytes(80))),
        "unknown dtype": lambda: signed(npy((10,), "<q99", bytes(80))),
        "huge dtype": lambda: signed(npy((0,), "<U999999999999")),
        "huge header": lambda: signed(npy((10,), body=bytes(80), version=b"\x02\x00", padding=10**6)),
        "deep header": lambda: signed(npy(Deep(), body=bytes(80))),
        "version 3": lambda: signed(npy((10,), body=bytes(80), version=b"\x03\x00")),
        "version 9": lambda: signed(npy((10,), body=bytes(80), version=b"\x09\x00")),
        "code as a header": lambda: signed(
            b"\x93NUMPY\x01\x00\x40\x00" + b"__import__('os').mkdir('x')".ljust(63) + b"\n"
        ),
    }


class Deep:
    def __repr__(self) -> str:
        return "(" * 3000 + ")" * 3000


CASES = sorted(planted(Path("nowhere")))
MOST = 25 * MEGABYTE


@pytest.fixture
def trap(tmp_path):
    """The file that a payload would make."""
    path = tmp_path / "executed"
    yield path
    assert not path.exists(), "a pickle was executed"


def peak_of(call) -> int:
    """The bytes allocated at most at once during a call that is refused."""
    tracemalloc.start()
    try:
        call()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize("case", CASES)
def test_planted_bytes_are_refused_by_name_at_little_cost(trap, case):
    packed = planted(trap)[case]()

    def refused():
        with pytest.raises(DamagedError, match=r"^tasks 7: array 'reward': "):
            unpack(packed.of("tasks", 7, "reward"), "tasks", 7, "reward")

    peak = peak_of(refused)
    print(f"{case}: {len(packed.data) / 1e3:,.1f} kB planted, {peak / 1e6:.2f} MB at most")
    assert peak < MOST


def test_the_payload_would_execute_if_it_were_unpickled(tmp_path):
    path = tmp_path / "executed"
    np.load(io.BytesIO(pickled_array(path)), allow_pickle=True)
    assert path.exists()


def plant(repository, table, number, name, packed):
    """Put bytes in the place of a stored array, as somebody who can write the database might."""
    arrays = schema.arrays
    here = sa.and_(arrays.c.owner == table, arrays.c.owner_id == number, arrays.c.name == name)

    signed_there = packed.of(table, number, name)

    def write(connection):
        assert connection.execute(sa.update(arrays).where(here).values(**signed_there._asdict())).rowcount == 1

    repository.database.write(write)


READERS = {
    ("tasks", "reward"): lambda repository: repository.task(2),
    ("policies", "policy"): lambda repository: repository.policy(2),
    ("tasks", "row_values"): lambda repository: repository.cross_values(),
}
WORST = (
    "pickled object array", "raw pickle", "800 GB, honest size", "bomb, small size, small header", "truncated",
    "wrong checksum", "negative shape", "0 and far too long", "version 3",
)  # fmt: skip


@pytest.mark.parametrize("where", READERS, ids="-".join)
def test_bytes_planted_in_a_database_are_refused_by_name(path, rng, trap, where):
    table, name = where
    with Repository(path) as repository:
        for task in random_tasks(rng, 3):
            repository.add(task)
    for case in WORST:
        with Repository(path) as repository:
            plant(repository, table, 2, name, planted(trap)[case]())
            with pytest.raises(DamagedError, match=f"^{table} 2: array '{name}'"):
                READERS[where](repository)
            damage = repository.check()
            assert [found for found in damage if found.place == f"{table} 2" and name in found.problem], case
            assert repository.task(3) is not None
            assert len(repository) == 3


def test_bytes_planted_in_a_database_cost_little(path, rng, trap):
    with Repository(path) as repository:
        repository.add(random_task(rng))
        packed = planted(trap)["bomb, honest size"]()
        plant(repository, "tasks", 1, "reward", packed)

    def refused():
        with Repository(path) as reopened:
            with pytest.raises(DamagedError, match=r"^tasks 1: array 'reward'"):
                reopened.task(1)
            assert reopened.check()

    peak = peak_of(refused)
    print(f"{len(packed.data) / 1e6:.1f} MB planted, {peak / 1e6:.1f} MB at most")
    assert peak < MOST


SPOILED = {
    "moves": lambda array: array + 10**6,
    "reward": lambda array: array * np.nan,
    "terminated": lambda array: array.astype(np.int8),
    "start_states": lambda array: array + 100,
    "start_probability": lambda array: array * 2,
}


def test_arrays_that_make_no_task_are_refused_though_their_checksums_are_right(path, rng):
    task = random_task(rng)
    stored = {**vars(task), "moves": task.next_state - np.arange(task.n_states, dtype=np.int32)[:, None]}
    with Repository(path) as repository:
        repository.add(task)
    for name, spoil in SPOILED.items():
        with Repository(path) as repository:
            plant(repository, "tasks", 1, name, pack(spoil(stored[name])))
            with pytest.raises(DamagedError, match=r"^tasks 1: "):
                repository.task(1)
            with pytest.raises(DamagedError, match=r"^tasks 1: "):
                repository.add(random_task(rng))
            assert {damage.place for damage in repository.check()} == {"tasks 1"}, name
            plant(repository, "tasks", 1, name, pack(stored[name]))
            assert repository.check() == []


def test_an_array_that_is_no_policy_of_its_task_is_refused(path, rng):
    with Repository(path) as repository:
        repository.add(random_task(rng))
    for wrong in (constant_policy(7), constant_policy(1)[:3], constant_policy(1) * 0.5, np.full((6, 3), 0.5)):
        with Repository(path) as repository:
            plant(repository, "policies", 1, "policy", pack(wrong))
            with pytest.raises(DamagedError, match=r"^policies 1: "):
                repository.policy(1)
            assert {damage.place for damage in repository.check()} == {"policies 1"}


@pytest.mark.parametrize("name", ["row_values", "row_ids"])
def test_values_that_are_not_complete_are_refused(path, rng, name):
    with Repository(path) as repository:
        for task in random_tasks(rng, 3):
            repository.add(task)
        plant(repository, "tasks", 3, name, pack(np.ones(1, np.int64 if name == "row_ids" else np.float64)))
        with pytest.raises(DamagedError, match=r"tasks 3|policy 2 in task 3"):
            repository.cross_values()
        assert repository.check()[0].place == "tasks 3"


def change_row(repository, table, number, **changes):
    """Change columns and make the checksum right again."""

    def change(connection):
        columns = schema.RECORDS[table]
        row = dict(connection.execute(sa.select(columns).where(columns.c.id == number)).mappings().one())
        rows.update(connection, table, row | {"settings": json.loads(row["settings"])}, **changes)

    repository.database.write(change)


def test_a_stored_environment_with_a_module_is_not_imported(path, rng, tmp_path, monkeypatch):
    (tmp_path / "planted_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with Repository(path) as repository:
        repository.add(random_task(rng))
        settings = repository.database.read(lambda c: rows.fetch(c, "tasks", [1]))[0]["settings"]
        planted = {"kind": "gymnasium", "env_id": "planted_module:Foo-v0", "kwargs": {}}
        settings |= planted
        change_row(repository, "tasks", 1, settings=settings, digest=records._environment_digest(settings))
    with Repository(path) as reopened:
        with pytest.raises(DamagedError, match=r"tasks 1: 'planted_module:Foo-v0' is no id of an environment"):
            reopened.task(1)
        assert reopened.check() == []  # the record is what was written; it is refused when it is used
    assert "planted_module" not in sys.modules


@pytest.mark.parametrize("column", ["name", "value", "settings", "digest"])
def test_a_column_changed_by_hand_is_noticed(place, rng, column):
    with Repository(place) as repository:
        repository.add(random_task(rng))
        changed = 2.5 if column == "value" else "{}"
        repository.database.write(lambda c: c.execute(sa.update(schema.tasks).values({column: changed})))
        with pytest.raises(DamagedError, match=r"^tasks 1: its checksum does not match its columns"):
            repository.records()
        assert [str(damage) for damage in repository.check()] == ["tasks 1: its checksum does not match its columns"]


def test_an_id_far_too_large_takes_no_memory(place, rng):
    far = 10**7
    with Repository(place) as repository:
        repository.add(random_task(rng))
        sequences = schema.sequences
        repository.database.write(
            lambda c: c.execute(sa.update(sequences).where(sequences.c.name == "tasks").values(last=far - 1))
        )
        assert repository.add(random_task(rng, 3)) == far
        peak = peak_of(repository.cross_values)
        print(f"an id of {far:,}: {peak / 1e6:.2f} MB at most")
        assert peak < MOST
