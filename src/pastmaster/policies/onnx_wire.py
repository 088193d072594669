"""ONNX's protobuf messages, read field by field and without trust.

``onnxruntime`` reads the same bytes with a reader of its own, so nothing may mean one thing here and another there.
Protobuf lets the last of two values win, merges messages that occur twice, skips what it does not know and cuts large
numbers: all of that is refused here. Nothing is copied, and the number of fields is limited.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pastmaster.errors import InvalidInputError

MOST_FIELDS = 10**6
DEEPEST = 24  # messages in messages; a graph in a graph takes three
VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5  # wire types


class Kind(NamedTuple):
    """What a field holds: a name of ``MESSAGES`` or one of the words below, and whether it may occur again."""

    name: str
    holds: str
    again: bool = False


def _fields(**kinds: str) -> dict[int, Kind]:
    """Fields from ``name="number holds"``; a star before what it holds means that it may occur again."""
    found = {}
    for name, kind in kinds.items():
        number, holds = kind.split()
        found[int(number)] = Kind(name, holds.lstrip("*"), holds.startswith("*"))
    return found


MESSAGES = {
    "model": _fields(
        ir_version="1 int", producer_name="2 text", producer_version="3 text", domain="4 text", model_version="5 int",
        doc_string="6 text", graph="7 graph", opset_import="8 *opset", metadata_props="14 *entry",
        training_info="20 *bytes", functions="25 *bytes", configuration="26 *bytes",
    ),
    "opset": _fields(domain="1 text", version="2 int"),
    "entry": _fields(key="1 text", value="2 text"),
    "graph": _fields(
        node="1 *node", name="2 text", initializer="5 *tensor", doc_string="10 text", input="11 *value",
        output="12 *value", value_info="13 *bytes", quantization_annotation="14 *bytes",
        sparse_initializer="15 *bytes", metadata_props="16 *entry",
    ),
    "node": _fields(
        input="1 *text", output="2 *text", name="3 text", op_type="4 text", attribute="5 *attribute",
        doc_string="6 text", domain="7 text", overload="8 text", metadata_props="9 *entry",
        device_configurations="10 *bytes",
    ),
    "attribute": _fields(
        name="1 text", f="2 float", i="3 int", s="4 bytes", t="5 tensor", g="6 graph", floats="7 *floats",
        ints="8 *ints", strings="9 *bytes", tensors="10 *tensor", graphs="11 *graph", doc_string="13 text",
        tp="14 bytes", type_protos="15 *bytes", type="20 small", ref_attr_name="21 text", sparse_tensor="22 bytes",
        sparse_tensors="23 *bytes",
    ),
    "tensor": _fields(
        dims="1 *ints", data_type="2 small", segment="3 bytes", float_data="4 *floats", int32_data="5 *ints",
        string_data="6 *bytes", int64_data="7 *ints", name="8 text", raw_data="9 bytes", double_data="10 *doubles",
        uint64_data="11 *ints", doc_string="12 text", external_data="13 *entry", data_location="14 small",
        metadata_props="16 *entry",
    ),
    "value": _fields(name="1 text", type="2 type", doc_string="3 text", metadata_props="4 *entry"),
    "type": _fields(
        tensor_type="1 tensor_type", sequence_type="4 bytes", map_type="5 bytes", denotation="6 text",
        opaque_type="7 bytes", sparse_tensor_type="8 bytes", optional_type="9 bytes",
    ),
    "tensor_type": _fields(elem_type="1 small", shape="2 shape"),
    "shape": _fields(dim="1 *dim"),
    "dim": _fields(dim_value="1 int", dim_param="2 text", denotation="3 text"),
}  # fmt: skip
"""All fields of the messages of onnx.proto that are looked into. "small" is a number of 31 bits, "bytes" is not looked
into; "ints", "floats" and "doubles" are numbers that may be packed, and stay bytes."""

WIRE = {
    "int": {VARINT}, "small": {VARINT}, "float": {FOUR}, "ints": {VARINT, BYTES}, "floats": {FOUR, BYTES},
    "doubles": {EIGHT, BYTES},
}  # fmt: skip
WIDTH = {EIGHT: 8, FOUR: 4}
Message = dict[str, Any]


class Wire:
    """A file's bytes, and how many fields were read of them."""

    def __init__(self, content: bytes, place: str) -> None:
        self.content, self.place, self.left = memoryview(content), place, MOST_FIELDS

    def refused(self, why: str) -> InvalidInputError:
        """The error for bytes that are no message."""
        return InvalidInputError(f"{self.place} is no ONNX file that can be read: {why}, must be one")

    def message(self, name: str, begin: int, end: int, depth: int = 0) -> Message:
        """The fields of a message by name: of those that may occur again a list, or all their bytes in one."""
        if depth > DEEPEST:
            raise self.refused(f"messages are nested more than {DEEPEST} deep")
        kinds, found, at = MESSAGES[name], Message(), begin
        while at < end:
            self.left -= 1
            if self.left < 0:
                raise self.refused(f"it has more than {MOST_FIELDS:,} fields")
            key, after = self.varint(at, end)
            kind, wire = kinds.get(key >> 3), key & 7
            if kind is None or wire not in WIRE.get(kind.holds, {BYTES}):
                raise self.refused(f"its {name} has the field {key >> 3} of type {wire}, which is not known here")
            first, at = self.extent(wire, after, end)
            if kind.again:
                self.add(found, kind, wire, first, at, depth)
            elif kind.name in found:
                raise self.refused(f"its {name} has {kind.name} twice")
            else:
                found[kind.name] = self.value(kind, first, at, depth)
        return found

    def add(self, found: Message, kind: Kind, wire: int, first: int, last: int, depth: int) -> None:
        """Add what may occur again."""
        if kind.holds not in ("ints", "floats", "doubles"):
            found.setdefault(kind.name, []).append(self.value(kind, first, last, depth))
            return
        width = {"floats": 4, "doubles": 8}.get(kind.holds, 0)
        if (width and (last - first) % width) or (not width and wire == BYTES and self.splits(first, last)):
            raise self.refused(f"its {kind.name} end within a number")
        found.setdefault(kind.name, bytearray()).extend(self.content[first:last])

    def value(self, kind: Kind, first: int, last: int, depth: int) -> Any:
        """What a field holds."""
        if kind.holds in MESSAGES:
            return self.message(kind.holds, first, last, depth + 1)
        if kind.holds in ("int", "small"):
            number, _ = self.varint(first, last)
            if kind.holds == "small" and number >= 2**31:
                raise self.refused(f"its {kind.name} is {number}")
            return number - 2**64 if number >= 2**63 else number
        if kind.holds != "text":
            return self.content[first:last]
        try:
            return str(self.content[first:last], "utf-8")
        except UnicodeDecodeError:
            raise self.refused(f"its {kind.name} is not text in UTF-8") from None

    def extent(self, wire: int, at: int, end: int) -> tuple[int, int]:
        """Where the value that follows a key begins and ends."""
        if wire == VARINT:
            return at, self.varint(at, end)[1]
        length = WIDTH.get(wire, 0)
        if wire == BYTES:
            length, at = self.varint(at, end)
        if length > end - at:
            raise self.refused("it ends within a field")
        return at, at + length

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """A number of at most 64 bits, and where it ends."""
        number = 0
        for shift in range(0, 70, 7):
            if at == end:
                raise self.refused("it ends within a field")
            byte = self.content[at]
            number |= (byte & 127) << shift
            at += 1
            if byte < 128:
                if number >= 2**64:
                    break
                return number, at
        raise self.refused("it has a number of more than 64 bits")

    def splits(self, first: int, last: int) -> bool:
        """Whether packed numbers end within one."""
        return last > first and self.content[last - 1] >= 128


def numbers(packed: bytes | bytearray) -> list[int]:
    """Whole numbers of 64 bits from their bytes."""
    found, number, shift = [], 0, 0
    for byte in packed:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            number &= 2**64 - 1
            found.append(number - 2**64 if number >= 2**63 else number)
            number = shift = 0
    return found


def count(packed: bytes | bytearray) -> int:
    """How many whole numbers there are in bytes."""
    return int((np.frombuffer(packed, np.uint8) < 128).sum())
