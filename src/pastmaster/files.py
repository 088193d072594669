"""Files that are there whole or not at all, and archives that are broken."""

from __future__ import annotations

import lzma
import os
import struct
import zipfile
import zlib
from pathlib import Path

BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, RuntimeError)
"""What reading a zip file that is damaged, or is none, may raise; of a NotImplementedError it is a RuntimeError."""


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, see it to the disk, and move it there; its folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
