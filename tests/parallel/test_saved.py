"""Chunks on disk: found again, never mixed, never trusted when damaged; a killed driver loses what was under way."""

from __future__ import annotations

import io
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
import zipfile
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import seams
from clustering_reference import random_symmetric
from executors import wait_until
from reference import random_mdp, random_policy
from transfer_runs import LAKE, assert_same_run, compiled_trials, plain_trials

from pastmaster import (
    Chain,
    InvalidInputError,
    PastmasterError,
    QLearning,
    TsallisINF,
    cross_values,
    parallel,
    search_clusterings,
    transfer,
)

CHUNKS = seams.chunk_format()


def numbers(folder, key="squares", calls=None):
    """A saved map over twelve numbers that notes what it computes."""
    seen = [] if calls is None else calls

    def job(item):
        seen.append(item)
        return item * item + 0.5

    keep = parallel.Saved(
        Path(folder),
        key,
        lambda results: {"values": np.array(results)},
        lambda arrays, items: arrays["values"].tolist(),
    )
    return parallel.run(job, range(12), save=keep)


EXPECTED = [i * i + 0.5 for i in range(12)]


def test_finished_chunks_are_not_run_again(tmp_path):
    calls: list[int] = []
    assert numbers(tmp_path, calls=calls) == EXPECTED
    assert calls == list(range(12))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"squares-{i:03d}.npz" for i in range(12)]
    for gone in (3, 7):
        (tmp_path / f"squares-{gone:03d}.npz").unlink()
    calls.clear()
    assert numbers(tmp_path, calls=calls) == EXPECTED
    assert calls == [3, 7]
    calls.clear()
    assert numbers(tmp_path, calls=calls) == EXPECTED
    assert calls == []


def test_files_are_plain_npz(tmp_path):
    numbers(tmp_path)
    with np.load(tmp_path / "squares-003.npz", allow_pickle=False) as found:
        assert found["values"].tolist() == [9.5]
        assert sorted(found) == ["sha256", "values"]


def test_files_go_by_the_names_given_and_are_found_by_them_in_any_company(tmp_path):
    def run(items, calls):
        keep = parallel.Saved(
            tmp_path,
            "",
            lambda r: {"r": np.array(r)},
            lambda arrays, _: arrays["r"].tolist(),
            [f"item {i}" for i in items],
        )
        return parallel.run(lambda item: calls.append(item) or 2 * item, items, save=keep)

    assert run([3, 5], []) == [6, 10]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["item 3.npz", "item 5.npz"]
    assert run([1, 5, 3], calls := []) == [2, 10, 6]
    assert calls == [1]


def test_an_error_keeps_what_was_finished(tmp_path):
    keep = parallel.Saved(tmp_path, "key", lambda r: {"r": np.array(r)}, lambda arrays, items: arrays["r"].tolist())
    with pytest.raises(ZeroDivisionError):
        parallel.run(lambda item: 1 / (5 - item), range(8), save=keep)
    assert len(list(tmp_path.glob("*.npz"))) == 5
    assert len(list(tmp_path.iterdir())) == 5


def test_results_not_worth_keeping_are_not_kept(tmp_path):
    keep = parallel.Saved(
        tmp_path, "key", lambda r: None if r == [2] else {"r": np.array(r)}, lambda a, _: a["r"].tolist()
    )
    assert parallel.run(abs, range(4), save=keep) == [0, 1, 2, 3]
    assert len(list(tmp_path.iterdir())) == 3


def test_many_items_make_at_most_256_chunks_however_many_workers(tmp_path):
    keep = parallel.Saved(tmp_path, "key", lambda r: {"r": np.array(r)}, lambda arrays, items: arrays["r"].tolist())
    for n_jobs in (3, 1):  # one goes on from the chunks of three
        assert parallel.run(abs, range(1000), n_jobs=n_jobs, save=keep) == list(range(1000))
        assert len(list(tmp_path.iterdir())) == 256


# damage


def forged(path: Path, member: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    """Write a file as ours would be, with a true sum, but with this member as the array ``values``."""
    total = io.BytesIO()
    np.lib.format.write_array(total, np.frombuffer(CHUNKS._sum({"values": member}, path.name), np.uint8))
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("values.npy", member)
        archive.writestr("sha256.npy", total.getvalue())


def npy(array, **header) -> bytes:
    stream = io.BytesIO()
    if header:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, **header})
        stream.write(array.tobytes())
    else:
        np.lib.format.write_array(stream, array)
    return stream.getvalue()


class Planted:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "a bit flipped": flip,
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "empty": lambda path: path.write_bytes(b""),
    "no archive": lambda path: path.write_bytes(os.urandom(500)),
    "a pickle": lambda path: path.write_bytes(pickle.dumps(Planted(path.with_name("planted")))),
    "an object array": lambda path: forged(path, npy(np.array([Planted(path.with_name("planted"))], object))),
    "800 GB": lambda path: forged(path, npy(np.zeros(1), shape=(10**11,))),
    "less than it says": lambda path: forged(path, npy(np.zeros(1), shape=(2,))),
    "more than it says": lambda path: forged(path, npy(np.zeros(2), shape=(1,))),
    "compressed": lambda path: forged(path, npy(np.array([9.5])), zipfile.ZIP_DEFLATED),
    "too many results": lambda path: forged(path, npy(np.zeros(2))),
    "another chunk": lambda path: shutil.copy(path.with_name("squares-004.npz"), path),
    "another problem": lambda path: (numbers(path.parent, "other"), shutil.copy(path.with_name("other-003.npz"), path)),
    "a link to nowhere": lambda path: (path.unlink(), path.symlink_to("nowhere")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_chunk_is_computed_again(damage, tmp_path):
    numbers(tmp_path)
    DAMAGE[damage](tmp_path / "squares-003.npz")
    calls: list[int] = []
    if damage == "a folder":  # which cannot be replaced either
        with (
            pytest.warns(UserWarning, match="computed again"),
            pytest.raises(InvalidInputError, match="a folder, must be a regular file"),
        ):
            numbers(tmp_path, calls=calls)
        return
    with pytest.warns(UserWarning, match=r"squares-003.npz is damaged or not ours, it is computed again: .") as told:
        assert numbers(tmp_path, calls=calls) == EXPECTED
    assert len(told) == 1
    assert calls == [3]
    assert not (tmp_path / "planted").exists()
    calls.clear()
    assert numbers(tmp_path, calls=calls) == EXPECTED  # it has been mended
    assert calls == []


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["a folder", "a named pipe"])
def test_what_cannot_be_replaced_is_refused_before_anything_is_computed(make, tmp_path):
    numbers(tmp_path)
    path = tmp_path / "squares-003.npz"
    path.unlink()
    make(path)
    calls: list[int] = []
    sentence = r"^parallel.run: save is '.*', where 'squares-003.npz' is no file, must be a folder of files$"
    with pytest.raises(InvalidInputError, match=sentence):
        numbers(tmp_path, calls=calls)
    assert calls == []


def test_a_file_of_10_gb_is_not_read(tmp_path):
    """It is larger than any chunk: what it holds does not matter."""
    numbers(tmp_path)
    with open(tmp_path / "squares-003.npz", "wb") as file:
        file.truncate(10**10)
    with pytest.warns(UserWarning, match=r"computed again: .* has 10,000,000,000 bytes, must have at most"):
        assert numbers(tmp_path) == EXPECTED


# folders that cannot be used


FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from pastmaster import InvalidInputError, parallel

def keep():
    return parallel.Saved(Path(sys.argv[1]), "key", lambda r: {"r": np.stack(r)}, lambda arrays, _: list(arrays["r"]))

def job(item):
    return np.full(10_000 if item == 2 else 10, float(item))

most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, most[1]))  # no file may be longer, as if the disk were full
try:
    parallel.run(job, range(4), n_jobs=int(sys.argv[2]), save=keep(), caller="cross_values")
except InvalidInputError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, most)
print(sorted(path.suffix for path in Path(sys.argv[1]).iterdir()))
parallel.run(job, range(4), save=keep())
print(len(list(Path(sys.argv[1]).iterdir())))
"""


@pytest.mark.parametrize("n_jobs", ["1", "2"])
def test_a_full_disk_is_one_sentence_and_leaves_no_half_file(n_jobs, tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path, n_jobs], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert re.fullmatch(
        r"cross_values: save is '.*', must be a folder that can be written \(.*key-002.npz cannot be .*large\)", told[0]
    )
    assert set(re.findall(r"'(.*?)'", told[1])) == {".npz"}
    assert told[2] == "4"


UNUSABLE = """
import os, sys
import numpy as np
from pastmaster import InvalidInputError, parallel

os.setgid(65534)
os.setuid(65534)

def run(item):
    sys.exit("nothing must be computed")

try:
    folder = parallel.saving_folder("transfer", sys.argv[1])
    keep = parallel.Saved(folder, "key", lambda r: {"r": np.array(r)}, lambda arrays, _: list(arrays["r"]))
    parallel.run(run, range(3), save=keep, caller="transfer")
except InvalidInputError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not")
@pytest.mark.parametrize(("mode", "what"), [(0o000, "read"), (0o555, "written")])
def test_a_folder_of_somebody_else_is_refused_before_anything_is_computed(mode, what):
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        Path(folder).chmod(0o755)
        closed = Path(folder) / "closed"
        closed.mkdir()
        closed.chmod(mode)
        done = subprocess.run([sys.executable, "-c", UNUSABLE, closed], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (f"transfer: save is '{closed}', must be a folder that can be {what} (Permission denied)\n")


def test_a_forged_file_that_fits_is_the_control(tmp_path):
    """So that the forgeries above are refused for what they hold, not for how they were made."""
    numbers(tmp_path)
    forged(tmp_path / "squares-003.npz", npy(np.array([77.0])))
    assert numbers(tmp_path)[3] == 77.0


def test_no_flipped_byte_is_believed(tmp_path):
    numbers(tmp_path)
    path = tmp_path / "squares-003.npz"
    content = path.read_bytes()
    believed = 0
    for place in range(len(content)):
        wrong = bytearray(content)
        wrong[place] ^= 0x20
        try:
            found = CHUNKS.unpacked(bytes(wrong), path.name)
        except Exception:
            continue
        believed += 1  # bytes that say nothing, such as a date
        assert found["values"].tolist() == [9.5]
        assert list(found) == ["values"]
    assert believed < len(content) / 4


def test_an_800_gb_header_takes_no_memory(tmp_path):
    import tracemalloc

    path = tmp_path / "key-000.npz"
    forged(path, npy(np.zeros(1), shape=(10**11,)))
    tracemalloc.start()
    with pytest.raises(PastmasterError, match=r"its header asks for .*, 800,000,000,\d+ bytes in all, must be the 1"):
        CHUNKS.unpacked(path.read_bytes(), path.name)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


# keys


def test_digests_tell_apart_what_differs():
    rng = np.random.default_rng(0)
    other = np.random.default_rng(0)
    parts = [
        (), (None,), (0,), (0.0,), (False,), ("0",), ([],), ([0],), ([[0]],), ([0], 0), (0, 0),
        ("a", "b"), ("ab",), ("a b",),
        (np.zeros(2),), (np.zeros(2, np.float32),), (np.zeros((1, 2)),), (np.zeros(2, np.int64),), (np.ones(2),),
        (rng,), (np.random.default_rng(1),), (rng.spawn(2)[0],), (rng.spawn(2)[1],), (-0.0,), (1e-300,),
    ]  # fmt: skip
    digests = [parallel.digest(*part) for part in parts]
    assert len(set(digests)) == len(parts)
    assert digests == [parallel.digest(*part) for part in parts]
    first = parallel.digest(other)
    other.spawn(1)
    assert parallel.digest(other) != first  # its next spawn will be another one
    with pytest.raises(TypeError, match="digest: object cannot be told apart"):
        parallel.digest(object())


def test_a_digest_is_the_same_in_every_process():
    script = (
        "import numpy as np; from pastmaster import parallel\n"
        "print(parallel.digest('x', np.arange(3), np.random.default_rng(1)))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


# the three that save


def test_cross_values_go_on_from_what_is_saved(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    tasks = [random_mdp(rng, 12, 3, outcomes) for outcomes in (3, 3, None, 2)]
    policies = [random_policy(rng, tasks[0], mixed=j == 2) for j in range(5)]
    own, given = cross_values(tasks), cross_values(tasks, policies)
    assert cross_values(tasks, save=tmp_path).tobytes() == own.tobytes()
    assert cross_values(tasks, policies, save=str(tmp_path)).tobytes() == given.tobytes()
    count = len(list(tmp_path.iterdir()))
    changed = [random_mdp(rng, 12, 3, 3), *tasks[1:]]
    assert cross_values(changed, policies, save=tmp_path).tobytes() == cross_values(changed, policies).tobytes()
    assert len(list(tmp_path.iterdir())) > count
    seams.forbid(monkeypatch, "cross values")
    assert cross_values(tasks, save=tmp_path).tobytes() == own.tobytes()
    assert cross_values(tasks, policies, save=tmp_path, n_jobs=2).tobytes() == given.tobytes()
    with pytest.raises(AssertionError, match="had been computed"):
        cross_values(tasks[:2], policies, save=tmp_path)


def test_a_doubtful_policy_is_told_of_when_it_is_read_too(tmp_path, monkeypatch):
    task = random_mdp(np.random.default_rng(0))
    seams.doubt_policies(monkeypatch)
    for _ in range(2):
        with pytest.warns(UserWarning, match="cross_values: the policy of TabularMDP.* is certified only to"):
            cross_values([task], save=tmp_path)
        seams.forbid(monkeypatch, "cross values")


@pytest.mark.parametrize("variant", ["default", "paper"])
def test_searches_go_on_from_what_is_saved(variant, tmp_path, monkeypatch):
    distance = random_symmetric(np.random.default_rng(1), 25)
    chosen = {"episodes": 1000, "span": 2.0, "restarts": 5, "iterations": 1000, "variant": variant}
    plain = search_clusterings(distance, rng=np.random.default_rng(2), **chosen)
    for _ in range(2):
        rng = np.random.default_rng(2)
        found = search_clusterings(distance, rng=rng, save=tmp_path, **chosen)
        assert found.labels.tobytes() == plain.labels.tobytes()
        assert found.traces.tobytes() == plain.traces.tobytes()
        assert rng.spawn(1)[0].random() == np.random.default_rng(2).spawn(6)[5].random()  # nor does rng tell
        seams.forbid(monkeypatch, "searches")
    others = ({"rng": np.random.default_rng(3)}, {"iterations": 1001}, {"chain": Chain(theta=2)}, {"n_clusters": 3})
    for other in others:
        with pytest.raises(AssertionError, match="had been computed"):
            search_clusterings(distance, save=tmp_path, **({"rng": np.random.default_rng(2)} | chosen | other))


def test_walks_cut_short_are_not_saved(tmp_path):
    distance = random_symmetric(np.random.default_rng(1), 60)
    chosen = {"episodes": 1000, "span": 2.0, "restarts": 3, "iterations": 10**9, "time_limit": 0.3}
    search_clusterings(distance, rng=np.random.default_rng(2), save=tmp_path, **chosen)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("trials", [compiled_trials, plain_trials])
@pytest.mark.parametrize(
    "selector", ["exp3-transfer", "tsallis-inf", "regret-balancing", "informed", "ppr", partial(TsallisINF, clip=True)]
)
def test_trials_go_on_from_what_is_saved(trials, selector, tmp_path, monkeypatch):
    if selector == "informed":
        n_sources = 2 if trials is plain_trials else 3
        trials = partial(trials, experience=np.random.default_rng(0).random((4, n_sources)))
    plain = trials(selector=selector)
    assert_same_run(trials(selector=selector, save=tmp_path), trials(selector=selector))
    assert len(list(tmp_path.iterdir())) == len(plain.returns)
    seams.forbid(monkeypatch, "trials")
    assert_same_run(trials(selector=selector, save=tmp_path), plain)
    assert_same_run(trials(selector=selector, save=tmp_path, n_jobs=2), trials(selector=selector, save=tmp_path))
    for other in ({"episodes": 41}, {"learner": QLearning(epsilon=0.2)}, {"on_violation": "clip"}, {"bounds": (-9, 9)}):
        if getattr(trials, "func", trials) is plain_trials or "episodes" not in other:
            with pytest.raises(AssertionError, match="had been computed"):
                trials(selector=selector, save=tmp_path, **other)


class OwnSettings:
    def start(self, observations, actions, gamma, rng):
        return QLearning().start(observations, actions, gamma, rng)


@pytest.mark.parametrize(("settings", "told"), [
    ({"selector": lambda *a, **k: TsallisINF(*a, **k)}, "save is given with a selector of its own"),
    ({"learner": OwnSettings()}, "save is given with a learner of its own, .* must be a QLearning"),
    ({"task": lambda: gym.make(LAKE)}, "save is given with an environment or a function as its task"),
    ({"sources": [lambda state: 0]}, "save is given with a function as a source"),
])  # fmt: skip
def test_what_cannot_be_told_apart_on_disk_is_refused(settings, told, tmp_path):
    chosen = {"task": LAKE, "sources": [np.zeros(16, int)], "episodes": 5, "bounds": (0, 1), "gamma": 0.9} | settings
    transfer(rng=np.random.default_rng(0), **chosen)
    with pytest.raises(InvalidInputError, match=f"transfer: {told}"):
        transfer(rng=np.random.default_rng(0), save=tmp_path, **chosen)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("save", ["", 3, b"x", True])
def test_a_folder_is_asked_for(save, tmp_path):
    with pytest.raises(InvalidInputError, match=r"cross_values: save is .*, must be the path of a folder"):
        cross_values([random_mdp(np.random.default_rng(0))], save=save)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match=r"transfer: save is '.*file', must be a folder \(File exists\)"):
        compiled_trials(save=tmp_path / "file")
    with pytest.raises(InvalidInputError, match=r"transfer: save is '.*inside', must be a folder \(Not a directory\)"):
        compiled_trials(save=tmp_path / "file" / "inside")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidInputError, match=r"transfer: save is '.*link', must be a folder"):
        compiled_trials(save=tmp_path / "link")
    with pytest.raises(InvalidInputError, match=r"transfer: save is .*, must be the path of a folder"):
        compiled_trials(save="a\0b")


# the driver killed

DRIVER = """
import os, sys, time
from pathlib import Path
import numpy as np
from pastmaster import parallel

notes, folder = Path(sys.argv[1]), Path(sys.argv[2])

def job(item):
    (notes / f"run-{item}-{os.getpid()}-{time.monotonic_ns()}").touch()
    while item >= 12 and not (folder / "again").exists():  # the first run does not come to its end
        time.sleep(0.02)
    time.sleep(0.02)
    return np.random.default_rng(item).random(50)

def encode(results):
    time.sleep(0.05)  # a slow disk: workers must not run ahead of it
    return {"r": np.stack(results)}

if __name__ == "__main__":
    keep = parallel.Saved(folder, parallel.digest("test"), encode, lambda arrays, _: list(arrays["r"]))
    found = parallel.run(job, range(30), n_jobs=2, processes=sys.argv[3] == "processes", save=keep)
    sys.stdout.write(np.stack(found).tobytes().hex())
"""


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_killed_driver_loses_at_most_a_chunk_to_a_worker(kind, tmp_path):
    notes, folder, script = tmp_path / "notes", tmp_path / "folder", tmp_path / "driver.py"
    notes.mkdir()
    folder.mkdir()
    script.write_text(DRIVER)
    command = [sys.executable, script, notes, folder, kind]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_until(lambda: len(list(folder.glob("*.npz"))) >= 8, "eight chunks have not been kept")
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    workers = {int(path.name.split("-")[2]) for path in notes.iterdir()} - {driver.pid}
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "workers outlive their driver")
    kept, begun = len(list(folder.glob("*.npz"))), len(list(notes.iterdir()))
    assert 8 <= kept < 30
    (folder / "again").touch()
    second = subprocess.run(command, capture_output=True, check=True)
    redone = len(list(notes.iterdir())) - 30
    print(f"{kind}: killed with {kept} chunks kept and {begun} begun, {redone} run twice")
    assert redone == begun - kept
    assert 0 <= redone <= 2
    assert second.stdout.decode() == np.stack([np.random.default_rng(i).random(50) for i in range(30)]).tobytes().hex()


def test_no_warning_without_damage(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers(tmp_path)
        numbers(tmp_path)
