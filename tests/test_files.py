"""The one writer and the one reader of files, and of .npy, .npz and zip files: all else is named and refused."""

from __future__ import annotations

import bz2
import errno
import io
import os
import re
import stat
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pastmaster import InvalidInputError, parallel
from pastmaster.cli.tasks import read_task
from pastmaster.figures import new_figure, save
from pastmaster.files import checked_file, from_json, read_whole, write_whole
from pastmaster.npy import read_npy, read_npz, read_zip


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as written:
        for name, content in members.items():
            written.writestr(name, content)
    return stream.getvalue()


def test_arrays_come_back_from_a_path_and_from_bytes(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.array(2.5), t=np.asfortranarray(np.ones((2, 3))))
    for source in (tmp_path / "a.npz", str(tmp_path / "a.npz"), (tmp_path / "a.npz").read_bytes()):
        found = read_npz(source, "here")
        assert found["x"].tolist() == [0, 1, 2]
        assert found["y"].item() == 2.5
        assert found["t"].flags.f_contiguous
    np.save(tmp_path / "b.npy", np.arange(4))
    assert read_npy(tmp_path / "b.npy").tolist() == [0, 1, 2, 3]


def test_what_cannot_be_read_is_named(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("no zip")
    with pytest.raises(InvalidInputError, match=r"notes\.txt is not an \.npz file of numbers: File is not a zip file"):
        read_npz(text)
    with pytest.raises(InvalidInputError, match=r"notes\.txt is not an \.npy file, must be a \.npy file"):
        read_npy(text)
    for read in (read_npz, read_npy):
        with pytest.raises(InvalidInputError, match=r"none cannot be read: No such file"):
            read(tmp_path / "none")
    np.savez(stream := io.BytesIO(), x=np.array([object()]))
    with pytest.raises(InvalidInputError, match=r"^here is not an \.npz file of numbers: x\.npy: has dtype object"):
        read_npz(stream.getvalue(), "here")


def test_only_what_is_asked_for_is_read_and_only_as_much():
    content = archive({"a": b"12345", "b": b"1"})
    assert read_zip(content, "here", {"a": 5, "c": 9}) == {"a": b"12345"}
    with pytest.raises(InvalidInputError, match="here: a has 5 bytes, must have at most 4"):
        read_zip(content, "here", {"a": 4})


def test_what_must_not_be_compressed_is_not():
    content = archive({"x": bytes(1000)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(InvalidInputError, match="it would unpack to 1,000 bytes, must not be compressed"):
        read_zip(content, "here", stored=True)


# bombs


def deflated_zeros(mebibytes: int) -> bytes:
    """So many MiB of zeros, compressed a thousandfold, without making them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * mebibytes + packer.flush()


def forged(*members: tuple[str, bytes, int], method: int = 8) -> bytes:
    """A zip file of names, packed contents and the sizes that it says they have, true or not."""
    body, entries, length = [], [], 0
    for name, packed, size in members:
        crc = zlib.crc32(zlib.decompressobj(-15).decompress(packed, size)) if method == 8 and 0 < size < 1000 else 0
        entry = struct.pack("<5H3L2H", 20, 0, method, 0, 33, crc, len(packed), size, len(name), 0)
        entries += [b"PK\x01\x02\x14\0", entry, struct.pack("<3H2L", 0, 0, 0, 0, length), name.encode()]
        body += [b"PK\x03\x04", entry, name.encode(), packed]
        length += sum(map(len, body[-4:]))
    listing = b"".join(entries)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(members), len(members), len(listing), length, 0)
    return b"".join([*body, listing, end])


def npy_of(shape: tuple[int, ...], dtype: str) -> tuple[bytes, int]:
    """The header of an array of zeros, and the bytes of both."""
    np.lib.format.write_array_header_1_0(
        stream := io.BytesIO(), {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return stream.getvalue(), len(stream.getvalue()) + int(np.prod(shape)) * np.dtype(dtype).itemsize


def stored_block(raw: bytes) -> bytes:
    """Bytes as a deflate block that is not the last."""
    return b"\0" + struct.pack("<2H", len(raw), 0xFFFF ^ len(raw)) + raw


def bombs() -> dict[str, bytes]:
    small = {name: archive_npy(np.zeros((2, 2))) for name in ("next_state", "reward")} | {"gamma": archive_npy(0.5)}
    given = [(f"{name}.npy", zlib.compress(raw, 9, -15), len(raw)) for name, raw in small.items()]
    head, size = npy_of((2**16, 2**12), "<f8")
    zeros = stored_block(head) + deflated_zeros(2048)
    arrays = [(f"{name}.npy", zeros, size) for name in ("next_state", "reward", "probability")]
    return {
        "two gigabytes to an array": forged(*arrays, ("gamma.npy", *given[2][1:])),
        "less said than there is": forged(*given[1:], ("next_state.npy", zeros, len(head) + 32)),
        "more said than there is": forged(*given[1:], ("next_state.npy", given[0][1], 2**27)),
        "another method": forged(*given[1:], ("next_state.npy", bz2.compress(bytes(2**23)), 2**23), method=12),
        "a text of a gigabyte": forged(*given, ("name.npy", stored_block(npy_of((), "<U268435456")[0]), 2**30 + 128)),
    }


def archive_npy(array: Any) -> bytes:
    np.save(stream := io.BytesIO(), np.asarray(array))
    return stream.getvalue()


def test_a_bomb_is_refused_in_a_sentence_and_in_little_memory(tmp_path):
    told = {}
    for name, content in bombs().items():
        path = tmp_path / "bomb.npz"
        path.write_bytes(content)
        tracemalloc.start()
        with pytest.raises(InvalidInputError, match=r"bomb\.npz is not an \.npz file of numbers: .") as caught:
            read_task(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 60_000_000, (name, caught.value, peak)
        told[name] = str(caught.value)
    whole = "it would unpack to 6,442,451,.* bytes, must be at most .* from a file of .*: np.savez writes it without"
    assert re.search(whole, told["two gigabytes to an array"])
    assert "must be by deflate" in told["another method"]


def test_an_honest_file_is_read_however_well_it_packs(tmp_path):
    shape = (4096, 512)
    arrays = {"next_state": np.zeros(shape, np.int32), "reward": np.zeros(shape), "gamma": np.array(0.5)}
    np.savez_compressed(tmp_path / "sparse.npz", **arrays)
    assert read_task(tmp_path / "sparse.npz").n_states == 4096


# what is no regular file


def test_what_is_no_regular_file_is_neither_read_nor_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    os.symlink(tmp_path / "pipe", tmp_path / "link")
    for place, kind in (("pipe", "a named pipe"), ("folder", "a folder"), ("link", "a named pipe")):
        path = tmp_path / place
        for use in (read_whole, read_npy, read_npz, lambda path: write_whole(path, b"x")):
            with pytest.raises(InvalidInputError, match=f"{place} is {kind}, must be a regular file"):
                use(path)
        with pytest.raises(InvalidInputError, match=rf"{kind}, must be a file"):
            checked_file("it", path, "a file")
    for use in (read_whole, read_npy, read_npz):
        with pytest.raises(InvalidInputError, match="zero is a device, must be a regular file"):
            use(Path("/dev/zero"))
    with pytest.raises(InvalidInputError, match="null is a device, must be a regular file"):
        write_whole(Path("/dev/null"), b"x")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "none/file", "file/below"])
def test_a_path_that_cannot_be_is_one_sentence(tmp_path, name):
    (tmp_path / "file").write_bytes(b"x")
    path = tmp_path / name
    with pytest.raises(InvalidInputError, match=r"cannot be read: ."):
        read_whole(path)
    with pytest.raises(InvalidInputError, match=r"cannot be read: .|which does not exist"):
        checked_file("it", path, "a file")
    if name != "none/file":
        with pytest.raises(InvalidInputError, match=r"cannot be written: ."):
            write_whole(path, b"x")
        assert os.listdir(tmp_path) == ["file"]


def test_a_file_too_large_is_not_read(tmp_path):
    with open(tmp_path / "large", "wb") as file:
        os.truncate(file.fileno(), 2**40)
    with pytest.raises(InvalidInputError, match=r"large has 1,099,511,627,776 bytes, must have at most 2,147,483,648"):
        read_whole(tmp_path / "large")


@pytest.mark.parametrize("text", [b"[" * 10**5, b"9" * 5000, b"\xff", b"{", b"", b'{"a": 1e}'])
def test_json_that_cannot_be_read_is_one_sentence(text):
    with pytest.raises(InvalidInputError, match=r"^here is not JSON") as told:
        from_json(text, "here")
    assert len(str(told.value)) < 200


# the writer


def test_a_planted_link_is_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    os.symlink(victim, tmp_path / "out")
    for name in (f".out.{os.getpid()}.part", ".out.part", "out.part"):  # what could be guessed
        os.symlink(victim, tmp_path / name)
    write_whole(tmp_path / "out", b"yours")
    assert victim.read_bytes() == b"mine"
    assert not (tmp_path / "out").is_symlink()
    assert (tmp_path / "out").read_bytes() == b"yours"
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling")
    write_whole(tmp_path / "dangling", b"yours")
    assert not (tmp_path / "nowhere").exists()


def test_what_killed_writers_left_is_removed_from_a_folder_of_saved_chunks(tmp_path):
    for name, age in ((".1a.part", 7200), (".2b.part", 60), ("mine.part", 7200)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    kept = parallel.Saved(tmp_path, "key", lambda found: {"n": np.array(found)}, lambda arrays, _: arrays["n"].tolist())
    assert parallel.run(abs, [-1], save=kept) == [1]
    assert {".2b.part", "mine.part"} == {name for name in os.listdir(tmp_path) if name.endswith(".part")}


def test_threads_that_write_one_file_never_show_half_of_it(tmp_path):
    path, contents = tmp_path / "one", [bytes([65 + k]) * 200_000 for k in range(4)]
    write_whole(path, contents[0])
    with ThreadPoolExecutor(5) as pool:
        writers = [pool.submit(lambda c: [write_whole(path, c) for _ in range(15)], content) for content in contents]
        seen = []
        while not all(writer.done() for writer in writers):
            seen.append(path.read_bytes())
        for writer in writers:
            writer.result()
    assert seen
    assert all(content in contents for content in seen)
    assert os.listdir(tmp_path) == ["one"]


def test_the_umask_decides_who_may_read(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step, failure):
    write_whole(tmp_path / "file", b"old")

    def fail(*_: Any) -> None:
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(os, step, fail)
        sentence = "cannot be written: No space left" if isinstance(failure, OSError) else None
        with pytest.raises(InvalidInputError if sentence else KeyboardInterrupt, match=sentence):
            write_whole(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_file_and_folder_are_flushed(tmp_path, monkeypatch):
    flushed, real = [], os.fsync
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(kinds[stat.S_IFMT(os.fstat(fd).st_mode)]) or real(fd))
    write_whole(tmp_path / "file", b"x")
    assert flushed == ["file", "folder"]


def test_a_full_disk_is_one_sentence(tmp_path):
    script = (
        "import resource, sys, signal\nfrom pathlib import Path\nfrom pastmaster import InvalidInputError\n"
        "from pastmaster.files import write_whole\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    write_whole(Path(sys.argv[1]) / 'file', bytes(5000))\n"
        "except InvalidInputError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path / 'file'} cannot be written: File too large\n"
    assert os.listdir(tmp_path) == []


def test_a_picture_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    figure, _ = new_figure(1, 1)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
    with pytest.raises(InvalidInputError, match=r"other\.png cannot be written: No space left"):
        save(figure, tmp_path / "other.png")
    assert os.listdir(tmp_path) == []
