"""Files of a reproduction: written whole or not at all, read if they are files and not too large."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from pastmaster import DamagedError, InvalidInputError


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all; its folder is made if need be."""
    beside = path.with_name(f".{secrets.token_hex(16)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_bytes(content)
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from None


def read_bytes(path: Path, most: int) -> bytes:
    """The bytes of a regular file of at most ``most``."""
    try:
        if not path.is_file():
            raise DamagedError(f"{path} is no file, must be one")
        size = path.stat().st_size
        if size > most:
            raise DamagedError(f"{path} has {size:,} bytes, must have at most {most:,}")
        return path.read_bytes()
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror}") from None
