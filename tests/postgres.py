"""A real PostgreSQL for tests, from the binaries of the wheel ``pgserver``: started, killed and restarted in a folder.

It listens on a Unix socket only. PostgreSQL refuses to run as root: as root it runs as ``nobody``, from a copy of the
binaries where the wheel lies in a folder that ``nobody`` cannot enter. The role ``guarded`` must give the password
``secret``; everybody else is trusted.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psutil
import psycopg

NOBODY = 65534
START_SECONDS = STOP_SECONDS = 240  # on a busy machine too
HOMES: dict[Path, Path] = {}
ACCESS = "local all guarded scram-sha-256\nlocal all all trust\n"


class Server:
    """A server with its data in ``folder``; its database ``postgres`` is at ``url``."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.socket = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path must be short
        self.process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    @property
    def pid(self) -> int:
        """The postmaster."""
        assert self.process is not None, "the server is not running"
        return self.process.pid

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.socket}"

    def restart(self) -> None:
        """Start again on the same data, after ``kill`` or ``stop``, or in place of the running one."""
        if self.process is not None:
            self._end("fast")
        self.socket.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            os.chown(self.socket, NOBODY, NOBODY)
        command = [_binary("postgres"), "-D", self.folder, "-k", self.socket, "-c", "listen_addresses=", *self.options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **_user()
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL to the postmaster and all its children, as when the machine dies; the data stay as they are."""
        if self.process is None:
            return
        try:
            postmaster = psutil.Process(self.process.pid)
            postmaster.suspend()  # it must not make another child meanwhile
            family = [*postmaster.children(recursive=True), postmaster]
        except psutil.NoSuchProcess:
            family = []
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        self.process.wait(STOP_SECONDS)
        self.process = None
        _wait_for_end(family)

    def stop(self) -> None:
        """Stop for good; a server that is stopped already stays so."""
        self._end("immediate")
        shutil.rmtree(self.socket, ignore_errors=True)

    def _end(self, mode: str) -> None:
        if self.process is None:
            return
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal({"fast": 2, "immediate": 3}[mode])  # PostgreSQL's meanings of SIGINT and SIGQUIT
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return
        self.process = None
        _wait_for_end(family)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=START_SECONDS).close()
        except psycopg.OperationalError:
            return False
        return True

    @contextmanager
    def fresh_database(self) -> Iterator[str]:
        """The URL of a new, empty database, dropped at the end whoever is still connected."""
        name = f"test_{uuid4().hex}"
        self._execute(f"CREATE DATABASE {name}")
        try:
            yield self.url_of(name)
        finally:
            self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _execute(self, command: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(command)


def start(folder: Path | str, *options: str) -> Server:
    """A running server in a folder, new or one where a server ran before; ``options`` go to ``postgres``."""
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    folder = _home(folder)
    server = Server(folder, *options)
    try:
        if not (folder / "PG_VERSION").exists():
            initdb = [_binary("initdb"), "-D", folder, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
            subprocess.run(
                [*map(str, initdb), "--locale=C"],
                check=True,
                stdout=subprocess.DEVNULL,
                cwd="/",
                timeout=START_SECONDS,
                **_user(),
            )
            (folder / "pg_hba.conf").write_text(ACCESS)
        server.restart()
        server._execute(
            "DO $$ BEGIN CREATE ROLE guarded LOGIN PASSWORD 'secret'; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        )
    except BaseException:
        server.stop()
        raise
    return server


def _binary(name: str) -> Path:
    return _programs() / "bin" / name


@functools.cache
def _programs() -> Path:
    """The folder of the wheel's programs and their libraries, or of a copy that the server's user can read.

    Found without importing the wheel: its import leaves files and warnings behind.
    """
    spec = importlib.util.find_spec("pgserver")
    assert spec is not None, "the wheel pgserver is not installed: pip install pgserver"
    assert spec.origin is not None
    installed = (Path(spec.origin).parent / "pginstall").resolve()
    if _can_be_walked_to(installed / "bin"):
        return installed
    copy = Path(tempfile.mkdtemp(prefix="pgprograms", dir="/tmp"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    return _copy_of(installed, copy)


def _copy_of(installed: Path, place: Path) -> Path:
    """The programs copied to a place where everybody may run them.

    They find libpq by the path ``$ORIGIN/../../../pgserver.libs``, so that folder goes along, three levels above.
    """
    wheel = installed.parent
    copied = place / wheel.name / installed.name
    shutil.copytree(installed, copied, symlinks=True)
    libraries = wheel.with_name("pgserver.libs")
    if libraries.exists():
        shutil.copytree(libraries, place / libraries.name, symlinks=True)
    for folder, _, files in os.walk(place):
        os.chmod(folder, 0o755)
        for file in files:
            path = Path(folder, file)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    return copied


def _user() -> dict[str, int | list[int]]:
    """How to start a process that is not root's."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _home(folder: Path) -> Path:
    """Where the data of a folder are: in it, unless nobody cannot walk there.

    Pytest closes its folders to others whenever another run of it begins, so opening them would not last.
    """
    if _can_be_walked_to(folder):
        return folder
    if folder not in HOMES:
        HOMES[folder] = Path(tempfile.mkdtemp(prefix="pgdata", dir="/tmp"))
        atexit.register(shutil.rmtree, HOMES[folder], ignore_errors=True)
    return HOMES[folder]


def _can_be_walked_to(place: Path) -> bool:
    """Whether the server's user may enter all folders above a place."""
    return os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in place.parents)


def _wait_for_end(family: list[psutil.Process]) -> None:
    """Return when nobody is alive that holds the shared memory; zombies hold nothing."""
    deadline = time.monotonic() + STOP_SECONDS
    for member in family:
        with suppress(psutil.NoSuchProcess):
            while member.is_running() and member.status() != psutil.STATUS_ZOMBIE:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{member} does not end")
                time.sleep(0.01)
