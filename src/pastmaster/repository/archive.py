"""A repository as a folder of .npy files and one JSON manifest: export and import.

The manifest holds every row with its checksum, and the SHA-256 of every array's file. An import makes the names of
files itself and takes none from the manifest; it checks headers before memory is taken; and it checks the records like
those of any repository before they are committed. A manifest that somebody forged is believed as far as it makes sense.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pastmaster.errors import DamagedError, InvalidInputError, RepositoryError
from pastmaster.files import LARGEST, flush_folder, from_json, read_whole, unfinished, write_new
from pastmaster.npy import npy_array, to_npy
from pastmaster.repository import rows
from pastmaster.repository.arrays import Packed, pack
from pastmaster.repository.check import Examiner
from pastmaster.repository.database import Database
from pastmaster.repository.schema import RECORDS, REVISION, arrays, sequences
from pastmaster.repository.sqlite import File

EXPORT, IMPORT = "Repository.export", "Repository.import_"  # what errors begin with
FORMAT = "pastmaster repository"
LARGEST_MANIFEST = 2**30
NAME = re.compile(r"[a-z0-9_]{1,32}")


def export(database: Database, folder: Path) -> Path:
    """Write everything into a new folder, which appears only when it is complete, with the mode of the repository."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RepositoryError(f"{EXPORT}: {folder} is there already, must be a new or empty folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        mode = database.backend.mode() if isinstance(database.backend, File) else None
        with unfinished(folder.parent) as beside:
            partial = beside / "exported"
            (partial / "arrays").mkdir(parents=True)
            with database.snapshot() as still:
                manifest = still.read(lambda connection: _write(connection, partial, mode))
            text = json.dumps(manifest | {"sha256": _sum(manifest)}, indent=1)
            write_new(partial / "manifest.json", text.encode(), mode)
            for made in (partial / "arrays", partial):
                if mode is not None:
                    made.chmod(0o700 | mode | (mode & 0o444) >> 2)  # who may read files may look into folders
                flush_folder(made)
            os.replace(partial, folder)
            flush_folder(folder.parent)
    except OSError as error:
        raise RepositoryError(f"{EXPORT}: {folder} cannot be written: {error.strerror or error}") from None
    return folder


def _write(connection: sa.Connection, folder: Path, mode: int | None) -> dict[str, Any]:
    """Write the arrays; returns the manifest."""
    tables, files = {}, []
    for table in RECORDS:
        records = rows.fetch(connection, table)
        tables[table] = [rows.stored(table, row) for row in records]
        for row in records:
            ((_, its_arrays),) = rows.fetch_arrays(connection, table, [row["id"]])
            for name, array in its_arrays.items():
                if not NAME.fullmatch(name):  # a path that leads elsewhere, or none that a file can have
                    raise DamagedError(
                        f"{EXPORT}: {table} {row['id']} has an array {name[:80]!r}, which none is called"
                    )
                raw = to_npy(array)
                write_new(folder / _file(table, row["id"], name), raw, mode)
                sha256 = hashlib.sha256(raw).hexdigest()
                files.append({"owner": table, "owner_id": row["id"], "name": name, "size": len(raw), "sha256": sha256})
    counted = {row.name: row.last for row in connection.execute(sa.select(sequences))}
    last = {table: counted[table] for table in RECORDS if table in counted}
    return {"format": FORMAT, "schema": REVISION, "sequences": last, "tables": tables, "arrays": files}


def import_(database: Database, folder: Path) -> int:
    """Read a folder into an empty repository, all or nothing; returns the number of tasks."""
    manifest = read_manifest(folder)

    def read(connection: sa.Connection) -> int:
        if any(connection.execute(sa.select(sequences.c.last)).scalars()):
            raise RepositoryError(f"{IMPORT}: {database.place} holds or held records, must be new")
        _read(connection, folder, manifest)
        examiner = Examiner()
        examiner.examine(connection)
        if examiner.damage:
            raise DamagedError(f"{IMPORT}: {folder}: {examiner.damage[0]}")
        return len(manifest["tables"]["tasks"])

    return database.write(read)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an exported folder, its checksum verified."""
    path = folder / "manifest.json"
    try:
        manifest = from_json(read_whole(path, LARGEST_MANIFEST), str(path))
    except InvalidInputError as error:
        raise DamagedError(f"{IMPORT}: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise RepositoryError(f"{IMPORT}: {path} is not the manifest of an exported repository")
    if manifest.pop("sha256", None) != _sum(manifest):
        raise DamagedError(f"{IMPORT}: {path} does not match its checksum")
    if manifest.get("schema") != REVISION:
        raise RepositoryError(f"{IMPORT}: {folder} has schema {manifest.get('schema')!r}, must be {REVISION!r}")
    return manifest


def _sum(manifest: dict[str, Any]) -> str:
    """The manifest's own checksum."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _read(connection: sa.Connection, folder: Path, manifest: dict[str, Any]) -> None:
    for table in RECORDS:
        found = manifest["tables"][table]
        for row in found:
            connection.execute(sa.insert(RECORDS[table]), row)
        last = max([manifest["sequences"][table], *(row["id"] for row in found)])
        connection.execute(sa.update(sequences).where(sequences.c.name == table).values(last=last))
    for entry in manifest["arrays"]:
        owner, number, name = entry["owner"], int(entry["owner_id"]), entry["name"]
        if owner not in RECORDS or not NAME.fullmatch(name):  # a path that leads elsewhere
            raise DamagedError(f"{IMPORT}: the manifest names an array {owner!r} {name!r}")
        packed = _load(folder / _file(owner, number, name), entry["sha256"])
        connection.execute(sa.insert(arrays), rows.stored_array(owner, number, name, packed))


def _load(path: Path, sha256: str) -> Packed:
    """An array from its file, packed as it is stored."""
    try:
        raw = read_whole(path, LARGEST)
    except InvalidInputError as error:
        raise DamagedError(f"{IMPORT}: {error}") from None
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise DamagedError(f"{IMPORT}: {path} does not match its checksum")
    return pack(npy_array(raw, f"{IMPORT}: {path}"))


def _file(owner: str, number: int, name: str) -> Path:
    return Path("arrays") / f"{owner}-{number}-{name}.npy"
