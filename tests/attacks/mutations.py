"""Files that were right, changed at random: bits, lengths, values of JSON, members of archives."""

from __future__ import annotations

import io
import json
import random
import re
import struct
import zipfile
from copy import deepcopy
from typing import Any

ODD = (
    float("nan"), float("inf"), float("-inf"), -1, 0, 1, 2, 0.5, -0.0, 5e-324, 1e-13, 1e308, -1e308, 10**9, 2**31,
    2**53, 2**63, 2**64, 10**30, 10**400, -(10**30), "x", "", "NaN", "1", "\0", "\ud800", "../../x", "/etc/passwd",
    None, True, False, [], {}, [[]], [1, 2], {"a": 1}, [[[[[[[[[[0]]]]]]]]]],
)  # fmt: skip
"""What may stand where something else should."""
LENGTHS = (0, 1, 2, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)
SIGNATURES = (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"\x93NUMPY")
WORDS = (
    (rb"\((\d+),", b"(99999999999,"), (rb"\((\d+),", b"(-1,"), (rb"\((\d+),", b"(0,"), (rb"<f8", b"|O8"),
    (rb"<i8", b"<U9999999"), (rb"<[if]8", b"<c16"), (rb"<[if][48]", b"|V0"), (rb"False", b"True "),
    (rb"shape", b"shapo"), (rb"\(.*?\)", b"(1,1,1,1,1,1)"), (rb"\(\d+", b"(" * 300), (rb"<[if]8", b"<f2"),
    (rb"<[if]8", b">f8"),
)  # fmt: skip
"""What a .npy header may say instead."""


def mutated(name: str, content: bytes, rng: random.Random) -> bytes:
    """A file of this name and content, with one to three changes of its own kind or of any."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kinds = [_bits, _bytes, _cut, _splice, _lengths]
        if name.endswith(".json") or name == "data":
            kinds = [_value] * 12 + [_text, *kinds]
        elif content.startswith(b"PK"):
            kinds = [_members] * 8 + [_lengths, *kinds]
        elif name.endswith((".npy", ".csv")):
            kinds = [_words, _words, _text, *kinds]
        content = rng.choice(kinds)(content, rng) or content
    return content


def _bits(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8)) if content else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _bytes(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    length = rng.choice((1, 2, 4, 8, 100))
    put = rng.choice((bytes(length), b"\xff" * length, rng.randbytes(length)))
    return content[:start] + put + content[start + length * rng.randrange(2) :]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return rng.choice((content[: rng.randrange(len(content) + 1)], content[rng.randrange(len(content) + 1) :], b""))


def _splice(content: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    place = rng.randrange(len(content) + 1)
    return content[:place] + content[start:end] + content[place:]


def _lengths(content: bytes, rng: random.Random) -> bytes:
    """A number behind one of the signatures that formats have, or anywhere, becomes another."""
    places = [found.start() for signature in SIGNATURES for found in re.finditer(re.escape(signature), content)]
    start = rng.choice(places) + rng.randrange(4, 46) if places else rng.randrange(len(content) + 1)
    kind = rng.choice(("<H", "<I", "<Q", ">H", ">I"))
    number = rng.choice(LENGTHS) % 256 ** struct.calcsize(kind)
    return content[:start] + struct.pack(kind, number) + content[start + struct.calcsize(kind) :]


def _text(content: bytes, rng: random.Random) -> bytes:
    """Numbers and words of a text become others."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    put = rng.choice(
        (b"9" * 5000, b"1e999", b"NaN", b"-1", b"", b"[" * 10**5, b'"', b"\xff\xfe", b"\0", b"1" * 30, b",")
    )
    if not numbers:
        return content + put
    found = rng.choice(numbers)
    return content[: found.start()] + put + content[found.end() :]


def _words(content: bytes, rng: random.Random) -> bytes:
    old, new = rng.choice(WORDS)
    return re.sub(old, new.replace(b"\\", rb"\\"), content, count=1)


def _value(content: bytes, rng: random.Random) -> bytes | None:
    """A value of a JSON text becomes another, is removed, or stands twice."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return json.dumps(changed_value(value, rng)).encode("utf-8", "surrogatepass")


def changed_value(value: Any, rng: random.Random) -> Any:
    """A value of JSON with one change somewhere in it; texts that are JSON themselves are changed within."""
    value = deepcopy(value)
    place, key = None, None
    inner = value
    while isinstance(inner, dict | list) and inner and (place is None or rng.random() < 0.85):
        place, key = inner, rng.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        inner = inner[key]
    if place is None:
        return rng.choice(ODD)
    what = rng.randrange(14)
    if isinstance(inner, str) and inner.startswith("{") and what:
        place[key] = json.dumps(changed_value(json.loads(inner), rng))
    elif what == 0:
        del place[key]
    elif what == 1 and isinstance(place, list):
        place.insert(key, inner)
    elif what == 2 and isinstance(place, dict):
        place[rng.choice(list(place))] = inner
    elif what == 3 and isinstance(place, list):
        other = rng.randrange(len(place))
        place[key], place[other] = place[other], inner
    elif what <= 9 and isinstance(inner, int | float) and not isinstance(inner, bool) and abs(inner) < 1e300:
        near = (
            inner + 1,
            inner - 1,
            -inner,
            inner * 1e9,
            inner / 1e9,
            float(inner),
            str(inner),
            inner * 1.5,
            1 - inner,
        )
        place[key] = rng.choice(near)
    else:
        place[key] = rng.choice(ODD)
    return value


def _members(content: bytes, rng: random.Random) -> bytes | None:
    """A member of an archive becomes another, under a right checksum, or is renamed, removed or stands twice."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
    except Exception:  # it is no archive any more
        return None
    if not members:
        return None
    at = rng.randrange(len(members))
    name, raw = members[at]
    what = rng.randrange(10)
    if what == 0:
        members.pop(at)
    elif what == 1:
        members.append((rng.choice(members)[0], raw))
    elif what == 2:
        members[at] = (rng.choice(("x.npy", "../x", "", "gamma.npy", "policy.pth", name + "\0", "name.npy")), raw)
    else:
        members[at] = (name, mutated(name, raw, rng))
    return zipped(
        members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2))
    )


def zipped(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive, the same bytes for the same members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, raw in members:
            entry = zipfile.ZipInfo(name or "empty")
            entry.compress_type = compression
            if entry.filename not in archive.NameToInfo:  # a second one under the same name without a warning
                archive.writestr(entry, raw)
            else:
                archive.NameToInfo.pop(entry.filename)
                archive.writestr(entry, raw)
    return stream.getvalue()
