from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from repository_reference import assert_whole, random_task, random_tasks, same_bits, same_task, worst_policy
from seams import archive, arrays as arrays_table, pack, rows

from pastmaster import DamagedError, GymTask, PastmasterError, Repository, RepositoryError


@pytest.fixture(scope="module")
def exported(tmp_path_factory, seed):
    """A repository with all that there can be in one, and the folder it was exported to."""
    rng, path = np.random.default_rng(seed), tmp_path_factory.mktemp("exported")
    tasks = random_tasks(rng, 4)
    with Repository(path / "source.db") as repository:
        for task in tasks:
            repository.add(task, None if task.is_deterministic else worst_policy(task))
        repository.add(random_task(rng), np.full((6, 3), 1 / 3), evaluation_episodes=4)
        repository.remove(repository.add(random_task(rng)))  # its id must stay used
        repository.cluster(rng=rng, episodes=100, span=1.0, restarts=1, iterations=500, certify=True)
        repository.cluster(rng=rng, n_clusters=2, restarts=1, iterations=500, directed=True)
        repository.database.write(fill_stream)
        assert repository.check() == []
        return path / "source.db", repository.export(path / "new" / "folder")


@pytest.fixture
def source(exported):
    """The repository that was exported."""
    with Repository(exported[0], create=False) as repository:
        yield repository


@pytest.fixture
def folder(exported, tmp_path):
    """A copy of the exported folder, to be spoiled."""
    return shutil.copytree(exported[1], tmp_path / "folder")


def fill_stream(connection):
    stream = rows.insert(connection, "streams", {"name": "ünïque", "settings": {"a": [1, None]}}, {})
    settings = {"x": 0.1, "name": "a task", "task_digest": "", "value": 0.1, "n_sources": 1, "evaluation_episodes": 0}
    run = {"task_id": 1, "stream_id": stream, "position": 0, "settings": settings}
    rows.insert(connection, "runs", run, {"returns": np.array([0.1, -0.0]), "arms": np.array([0, 1])})


def everything(repository):
    """All that is stored, with the arrays' bytes."""

    def read(connection):
        found = {}
        for table in rows.RECORDS:
            for row in rows.fetch(connection, table):
                arrays = next(iter(rows.fetch_arrays(connection, table, [row["id"]])))[1]
                bits = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in sorted(arrays.items())}
                found[table, row["id"]] = repr(row), bits
        return found

    return repository.database.read(read)


def assert_same(other, first):
    assert other.check() == []
    assert everything(other) == everything(first)
    assert other.records() == first.records()
    assert other.clusterings() == first.clusterings()
    assert same_bits(other.cross_values(), first.cross_values())
    assert same_bits(other.clustering().labels, first.clustering().labels)
    assert same_bits(other.clustering().distance, first.clustering().distance)
    assert all(same_task(*pair) for pair in zip(other.tasks(), first.tasks(), strict=True))
    assert all(same_bits(*pair) for pair in zip(other.policies(), first.policies(), strict=True))
    assert all(same_bits(*pair) for pair in zip(other.sources(), first.sources(), strict=True))


# There and back


def test_a_repository_carried_from_database_to_database_is_the_same(source, folder, tmp_path, postgres_url, seed):
    carried, places = [folder], [postgres_url, tmp_path / "third.db", tmp_path / "fourth.db"]
    for number, place in enumerate(places):
        with Repository(place) as repository:
            assert repository.import_(carried[-1]) == 5
            carried.append(repository.export(tmp_path / f"folder {number}"))
    another = random_task(np.random.default_rng([seed, 1]))
    for place in places:
        with Repository(place) as other:
            assert_same(other, source)
            assert other.add(another) == 7
    manifests = [(path / "manifest.json").read_bytes() for path in carried]
    assert manifests == [manifests[0]] * len(manifests)


def test_an_empty_repository_can_be_carried(tmp_path):
    with Repository(tmp_path / "one.db") as one, Repository(tmp_path / "two.db") as two:
        assert two.import_(one.export(tmp_path / "folder")) == 0
        assert two.check() == []


def test_gymnasium_tasks_can_be_carried(tmp_path):
    with Repository(tmp_path / "one.db") as one, Repository(tmp_path / "two.db") as two:
        one.add(GymTask("FrozenLake-v1", {"is_slippery": False}), np.ones(16, int), evaluation_episodes=2)
        two.import_(one.export(tmp_path / "folder"))
        assert two.task(1) == one.task(1)
        assert two.records() == one.records()


def test_the_manifest_is_plain_json_that_lists_every_file(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == "pastmaster repository"
    assert sorted(path.name for path in folder.iterdir()) == ["arrays", "manifest.json"]
    listed = {f"{a['owner']}-{a['owner_id']}-{a['name']}.npy": a for a in manifest["arrays"]}
    files = {path.name: path for path in (folder / "arrays").iterdir()}
    assert listed.keys() == files.keys()
    for name, path in files.items():
        raw = path.read_bytes()
        assert (len(raw), hashlib.sha256(raw).hexdigest()) == (listed[name]["size"], listed[name]["sha256"])
        np.load(path, allow_pickle=False)
    assert [len(manifest["tables"][table]) for table in ("tasks", "streams", "runs", "clusterings")] == [5, 1, 1, 2]


# Refused


def test_import_into_what_is_not_empty_is_refused(folder, place, rng):
    with Repository(place) as repository:
        repository.add(random_task(rng))
        before = everything(repository)
        with pytest.raises(RepositoryError, match=r"^Repository.import_: .* holds or held records, must be new"):
            repository.import_(folder)
        assert everything(repository) == before
        assert_whole(repository)


def test_export_over_what_is_there_is_refused(source, folder, tmp_path):
    before = sorted(path.name for path in folder.rglob("*"))
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    for taken in (folder, tmp_path / "file"):
        with pytest.raises(RepositoryError, match=r"^Repository.export: .* is there already, must be a new"):
            source.export(taken)
    assert source.export(tmp_path / "empty") == tmp_path / "empty"
    assert sorted(path.name for path in folder.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["a\0b", "../../outside", "/outside", "a" * 300, "x\n"])
def test_an_array_of_a_name_that_leads_elsewhere_is_not_exported(exported, tmp_path, name):
    shutil.copy(exported[0], tmp_path / "copy.db")
    with Repository(tmp_path / "copy.db") as repository:
        repository.database.write(
            lambda connection: connection.execute(
                sa.insert(arrays_table), rows.stored_array("tasks", 1, name, pack(np.zeros(2)))
            )
        )
        with pytest.raises(DamagedError, match=r"^Repository.export: tasks 1 has an array '.*', which none is called"):
            repository.export(tmp_path / "below" / "folder")
        for place in ("a\0b", "a" * 300):
            with pytest.raises(PastmasterError, match=r"^Repository.export: .*(cannot be written|must be)"):
                repository.export(tmp_path / place)
    assert not list(tmp_path.rglob("outside*"))
    assert list((tmp_path / "below").iterdir()) == []


def test_a_folder_with_pipes_and_links_neither_hangs_nor_leads_out(folder, target):
    for name in ("manifest.json", "arrays/tasks-1-reward.npy"):
        kept = (folder / name).read_bytes()
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(RepositoryError, match=r"^Repository.import_: .* is a named pipe, must be a regular file"):
            target.import_(folder)
        (folder / name).unlink()
        os.symlink("/dev/zero", folder / name)
        with pytest.raises(RepositoryError, match=r"^Repository.import_: .* is a device, must be a regular file"):
            target.import_(folder)
        (folder / name).unlink()
        (folder / name).write_bytes(kept)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left on device"), DamagedError("x")])
def test_an_interrupted_export_leaves_no_half_folder(source, tmp_path, monkeypatch, failure):
    saved = []

    def save(path, data, mode):
        saved.append(path)
        if len(saved) == 5:
            raise failure
        path.write_bytes(data)

    monkeypatch.setattr(archive, "write_new", save)
    expected = RepositoryError if isinstance(failure, Exception) else KeyboardInterrupt
    with pytest.raises(expected):
        source.export(tmp_path / "new" / "half")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.fixture
def target(tmp_path):
    """Where to import: still empty at the end, and whole."""
    with Repository(tmp_path / "target.db") as repository:
        yield repository
        assert everything(repository) == {}
        assert repository.check() == []


def harmless(original: bytes, changed: bytes) -> bool:
    """Whether a manifest says the same as before: other white space, another way to write the same text."""
    try:
        return json.loads(changed) == json.loads(original)
    except ValueError:
        return False


def test_any_changed_byte_is_noticed(folder, target, rng):
    refused = 0
    files = sorted((folder / "arrays").iterdir())
    choices = [folder / "manifest.json"] * 40 + [files[i] for i in rng.integers(len(files), size=25)]
    for path in choices:
        raw = path.read_bytes()
        changed = bytearray(raw)
        place = int(rng.integers(len(raw)))
        changed[place] ^= int(rng.integers(1, 256))
        if path.suffix == ".json" and harmless(raw, bytes(changed)):
            continue
        path.write_bytes(changed)
        with pytest.raises(RepositoryError, match=r"^Repository.import_: "):
            target.import_(folder)
        assert len(target) == 0
        path.write_bytes(raw)
        refused += 1
    assert refused >= 45


def edit_manifest(folder: Path, change, forged: bool = True) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    if forged:  # with a checksum that fits, as one who means harm would make it
        manifest.pop("sha256")
        manifest["sha256"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def entry_of(manifest, name):
    return next(entry for entry in manifest["arrays"] if entry["name"] == name)


MISCHIEF = {
    "a sequence that would use ids again": lambda m: m["sequences"].update(tasks=5),
    "no sequences": lambda m: m.pop("sequences"),
    "a table less": lambda m: m["tables"].pop("runs"),
    "a task less": lambda m: m["tables"]["tasks"].pop(),
    "an array less": lambda m: m["arrays"].pop(),
    "an array twice": lambda m: m["arrays"].append(m["arrays"][0]),
    "an array of nobody": lambda m: m["arrays"].append(m["arrays"][0] | {"owner_id": 99}),
    "arrays exchanged": lambda m: m["arrays"][0].update(sha256=m["arrays"][1]["sha256"]),
    "a path up": lambda m: m["arrays"][0].update(name="../../outside"),
    "a path up as owner": lambda m: m["arrays"][0].update(owner="../../outside"),
    "an absolute path": lambda m: m["arrays"][0].update(name="/etc/passwd"),
    "a path as id": lambda m: m["arrays"][0].update(owner_id="../../outside"),
    "another value": lambda m: m["tables"]["tasks"][0].update(value=1e9),
    "a row that is none": lambda m: m["tables"]["tasks"].append(None),
    "another format": lambda m: m.update(format="something else"),
    "a newer schema": lambda m: m.update(schema="9999"),
    "no arrays": lambda m: m.pop("arrays"),
}


# What makes sense in itself: only the manifest's checksum tells it from what was written.
SENSIBLE = {"a sequence that would use ids again", "an array less"}


@pytest.mark.parametrize("forged", [False, True])
@pytest.mark.parametrize("mischief", MISCHIEF)
def test_a_manifest_that_was_tampered_with_is_refused(folder, tmp_path, mischief, forged):
    if forged and mischief in SENSIBLE:
        return
    edit_manifest(folder, MISCHIEF[mischief], forged)
    # what a right checksum makes look whole may be refused by whom it reaches: nothing of it is stored
    refusal = pytest.raises(Exception) if forged else pytest.raises(RepositoryError, match=r"^Repository.import_: ")  # noqa: PT011
    with Repository(tmp_path / "target.db") as target:
        with refusal:
            target.import_(folder)
        assert everything(target) == {}


def test_nothing_outside_the_folder_is_read(folder, target, tmp_path, monkeypatch):
    shutil.copy(folder / "arrays" / "tasks-1-reward.npy", tmp_path / "outside.npy")
    opened = []
    real = archive.read_whole
    monkeypatch.setattr(archive, "read_whole", lambda path, most: opened.append(path) or real(path, most))
    for name in ("../../outside", str(tmp_path / "outside"), "..", "reward/../../../outside", "reward\n"):
        edit_manifest(folder, lambda m, name=name: entry_of(m, "reward").update(name=name))
        with pytest.raises(DamagedError, match="the manifest names an array"):
            target.import_(folder)
    assert opened
    assert all(folder in path.parents for path in opened)


class Payload:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_planted_pickle_is_not_executed(folder, target, tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Payload(tmp_path / "executed")]), allow_pickle=True)
    raw = buffer.getvalue()
    (folder / "arrays" / "tasks-1-reward.npy").write_bytes(raw)
    changes = {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    edit_manifest(folder, lambda m: entry_of(m, "reward").update(changes))
    with pytest.raises(DamagedError, match=r"tasks-1-reward.npy: has dtype object.* never read"):
        target.import_(folder)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("gone", ["manifest.json", "arrays/tasks-1-reward.npy", "arrays", "."])
def test_what_is_missing_is_named(folder, target, gone):
    path = folder / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(RepositoryError, match=r"^Repository.import_: .* cannot be read: No such file"):
        target.import_(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "NaN", '"text"', "[" * 100_000, '{"format": 1}', "\xff"])
def test_a_manifest_that_is_none_is_refused(folder, target, text):
    (folder / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(RepositoryError, match=r"^Repository.import_: "):
        target.import_(folder)


def test_a_file_where_a_folder_must_be_is_refused(target, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RepositoryError, match=r"^Repository.import_: .* cannot be read"):
        target.import_(tmp_path / "file")
    with pytest.raises(RepositoryError, match=r"^Repository.export: .* cannot be written"):
        target.export(tmp_path / "file" / "below")
