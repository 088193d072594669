"""Stored policies as files: by content, checked on both sides, and nothing in them that runs."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import sqlalchemy as sa

from pastmaster.errors import DamagedError
from pastmaster.npy import read_npz
from pastmaster.repository import Repository, rows
from pastmaster.repository.records import Stored, policy_of
from pastmaster.repository.schema import policies as table


def policy_file(repository: Repository, digest: str) -> bytes | None:
    """The stored policy with this digest as an ``.npz`` file; None if there is none."""

    def read(connection: sa.Connection) -> bytes | None:
        found = rows.fetch_where(connection, "policies", table.c.digest == digest)
        if not found:
            return None
        ((_, arrays),) = rows.fetch_arrays(connection, "policies", [found[0]["id"]])
        policy_of(found[0], arrays)  # it is what its digest says
        file = io.BytesIO()
        settings = np.frombuffer(json.dumps(found[0]["settings"]).encode(), np.uint8)
        np.savez(file, settings=settings, policy=arrays["policy"])
        return file.getvalue()

    return repository.database.read(read)


def read_policy(file: bytes, digest: str) -> Stored:
    """The policy in such a file: an array, a ``NetworkPolicy`` or an ``OnnxPolicy``; it must have this digest."""
    arrays = read_npz(file)
    try:
        settings: dict[str, Any] = json.loads(arrays["settings"].tobytes())
        row = {"id": 0, "settings": settings, "digest": digest}
        return policy_of(row, {"policy": arrays["policy"]})
    except (KeyError, ValueError) as error:
        raise DamagedError(f"read_policy: the file is no policy: {error}") from None
