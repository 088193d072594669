"""Headers of .npy files, read as NumPy reads them, but not by Python's parser."""

from __future__ import annotations

import ast
import io

import numpy as np
import pytest

from pastmaster.errors import DamagedError
from pastmaster.npy import npy_array, read_header

TYPES = ["<f8", ">f8", "<f4", "<f2", "<i8", "<u2", "|i1", "|b1", "<c16", "<U5", "|S3"]


def saved(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (1, 2, 3, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_headers_are_read_as_numpy_reads_them(dtype, shape, order):
    array = np.asarray(np.arange(np.prod(shape)).reshape(shape).astype(dtype), order=order)
    raw = saved(array)
    file = io.BytesIO(raw)
    np.lib.format.read_magic(file)
    assert tuple(read_header(raw, len(raw), "x")[:3]) == np.lib.format.read_array_header_1_0(file)
    again = npy_array(raw, "x")
    assert again.dtype == array.dtype
    assert np.array_equal(again, array)
    assert again.flags.f_contiguous == array.flags.f_contiguous


def test_pythons_parser_is_not_asked(monkeypatch):
    """In CPython 3.11 it fails now and then where two threads ask at once: then a whole record is called damaged."""

    def fails(*_):
        raise SystemError("AST constructor recursion depth mismatch")

    raw = saved(np.arange(3.0))
    monkeypatch.setattr(ast, "literal_eval", fails)
    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", fails)
    assert npy_array(raw, "x").tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{'descr': '<f8', 'fortran_order': False}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': 3}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f8', 'fortran_order': 'False', 'shape': (3,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'more': True}",
        "{'descr': '<f8', 'descr': '<f8', 'shape': (3,)}",
        "{'descr': 'nonsense', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (" + 65 * "1, " + ")}",
        "__import__('os').system('true')",
    ],
)
def test_what_is_no_header_is_damage(text):
    head = text.encode()
    raw = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(24)
    with pytest.raises(DamagedError, match=r"^x: "):
        read_header(raw, len(raw), "x")
