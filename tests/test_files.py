"""The one reader of .npy, .npz and zip files: plain arrays in, everything else named and refused."""

from __future__ import annotations

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from pastmaster import InvalidInputError
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
    with pytest.raises(InvalidInputError, match=r"notes\.txt: has no readable \.npy header.*must be a \.npy file"):
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
    with pytest.raises(InvalidInputError, match="here is not a readable zip file: it would unpack to 6 bytes, must be"):
        read_zip(content, "here", most=5)


def test_a_bomb_takes_no_memory():
    content = archive({"x.npy": bytes(10**8)}, zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    with pytest.raises(InvalidInputError, match="it would unpack to 100,000,000 bytes, must not be compressed"):
        read_zip(content, "here", stored=True)
    with pytest.raises(InvalidInputError, match="it would unpack to 100,000,000 bytes, must be at most 1,000"):
        read_npz(content, "here", most=1000)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
