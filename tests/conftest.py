"""What all tests share: their seed and order, places for repositories; Ctrl-C, a clock and quick threads for some.

One seed for every test: 42, or any of 0 to 99 that the environment variable PASTMASTER_TEST_SEED names.
"""

from __future__ import annotations

import faulthandler
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

for library in ("OMP", "OPENBLAS", "MKL"):  # workers on every core: threads of theirs would wait for each other
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import misbehaving  # noqa: E402  NumPy looks at these when it is imported
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from attempts import Tally, table  # noqa: E402
from hypothesis import settings  # noqa: E402

if TYPE_CHECKING:
    from postgres import Server

    from pastmaster import Repository

SEED = int(os.environ.get("PASTMASTER_TEST_SEED", "42"))
SOAK = os.environ.get("PASTMASTER_SOAK") == "1"
TOGETHER = (  # a reproduction, a browser, bits
    "test_experiments.py", "test_report_browser.py", "test_reproduction_browser.py", "test_compiled.py",
    "test_hostile_names.py",
)  # fmt: skip
TALLY = "attempts"
NO_BROWSER = "chromium is not on the PATH"
INSTALL_BROWSER = "apt-get install chromium (as root, on Debian and Ubuntu)"
EXECUTORS = re.compile(r"\b(threads|processes|loky|dask)\b")

# No database: what hypothesis tries depends on the seed alone, not on what earlier runs left on this machine.
settings.register_profile("pastmaster", deadline=None, derandomize=False, max_examples=40, database=None)
settings.load_profile("pastmaster")


def pytest_configure(config: pytest.Config) -> None:
    if not 0 <= SEED <= 99:
        raise pytest.UsageError(f"PASTMASTER_TEST_SEED is {SEED}, must be in 0..99")
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(SEED)
    config.option.maxworkerrestart = "0"  # the test that ended its worker is named; another worker would hang


def pytest_report_header() -> list[str]:
    soak = "soak: all that is marked soak or repeated, in full" if SOAK else "without soak: `make soak` runs the rest"
    return [f"PASTMASTER_TEST_SEED={SEED}", soak]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under ``make soak`` what is marked for it, else all the rest; in any case the longest first."""

    def chosen(item: pytest.Item) -> bool:
        marks = {mark.name for mark in item.iter_markers()}
        return bool(marks & {"soak", "repeated"}) if SOAK else "soak" not in marks

    def seconds(item: pytest.Item) -> float:
        mark = item.get_closest_marker("long")
        return 0.0 if mark is None else float(mark.args[0])

    from pastmaster.compiled import announcement

    announcement.announced = True  # or stderr would depend on which test compiles first
    config.hook.pytest_deselected(items=[item for item in items if not chosen(item)])
    items[:] = sorted(filter(chosen, items), key=seconds, reverse=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests go to workers one by one in the order above, but those that share what is slow to make all go to one.

    This is ``--dist loadgroup``, which groups nothing with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module, _, test = nodeid.partition("::")
            executor = EXECUTORS.search(test) if module.endswith("test_executors.py") else None
            return executor[0] if executor else module if module.endswith(TOGETHER) else nodeid

    config.option.loadscopereorder = False
    return Together(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What hangs in a kernel hears no signal: when twice the limit is over, it is shown and the process ends."""
    faulthandler.dump_traceback_later(2 * float(item.config.getini("timeout")), exit=True, file=sys.__stderr__)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def attempts(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str], Tally]]:
    """Tallies of attacks, by what is tried and what is promised; the test fails if one of them has a failure."""
    tallies: list[Tally] = []

    def tally(what: str, promise: str) -> Tally:
        tallies.append(Tally(what, promise))
        return tallies[-1]

    yield tally
    for made in tallies:
        request.node.user_properties.append((TALLY, (made.what, made.promise, made.tried, len(made.failures))))
    for made in tallies:
        made.assert_held()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    """Under ``make soak``, what was tried, survived, failed; last, what was skipped for want of a browser."""
    if SOAK:
        _write_tallies(terminalreporter)
    yield
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    unseen = sum(NO_BROWSER in reason for reason in skipped)
    if unseen:
        text = f"{unseen} tests of pages were skipped: {NO_BROWSER}. To run them: {INSTALL_BROWSER}"
        terminalreporter.write_line(text)


def _write_tallies(terminalreporter: Any) -> None:
    reports = [report for found in terminalreporter.stats.values() for report in found]
    ended = [report for report in reports if getattr(report, "when", None) == "teardown"]
    rows = [tuple(value) for report in ended for name, value in report.user_properties if name == TALLY]
    if rows:
        terminalreporter.section("tried, survived, failed")
        terminalreporter.write_line("\n".join(table(rows)))


@pytest.fixture(scope="session")
def seed() -> int:
    return SEED


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture
def ctrl_c() -> Iterator[Callable[..., None]]:
    """Sends Ctrl-C once something has happened, which it asks for again and again on a thread of its own.

    SIGINT raises KeyboardInterrupt meanwhile, here and in processes started here: in a script's background, where tests
    may run, it is ignored.
    """
    over, threads = threading.Event(), []

    def send(happened: Callable[[], object]) -> None:
        while not happened():
            if over.wait(0.02):
                return
        os.kill(os.getpid(), signal.SIGINT)

    def arrange(when: Callable[[], object]) -> None:
        threads.append(threading.Thread(target=send, args=(when,), daemon=True))
        threads[-1].start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield arrange
    over.set()
    for thread in threads:
        thread.join()
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads take turns a thousand times as often as they do by default."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> misbehaving.Clock:
    """The clock by which environments are watched, which goes only when told: a busy machine hangs nothing."""
    clock = misbehaving.Clock()
    monkeypatch.setattr("pastmaster.tasks.guard.time", clock)
    monkeypatch.setattr(misbehaving, "lose_an_hour", lambda: clock.advance(3600.0))
    return clock


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A chromium without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser can be driven")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip(NO_BROWSER)
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=240_000)
        yield started
        started.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL of this worker's own, started by the first test that asks for it."""
    from postgres import start

    # In a folder of its own: pytest closes its folders to other users, and the server is one.
    with tempfile.TemporaryDirectory(prefix="pastmaster-postgres-", ignore_cleanup_errors=True) as folder:
        # No power supply fails here: what the kernel has is safe enough.
        server = start(Path(folder), "-c", "fsync=off")
        yield server
        server.stop()


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """An empty database, dropped afterwards."""
    with postgres_server.fresh_database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new repository can be made: a file, then a database on a server."""
    if request.param == "sqlite":
        return str(tmp_path / "repository.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file for a lifelong agent."""
    return tmp_path / "agent.db"


@pytest.fixture
def repository(path: Path) -> Iterator[Repository]:
    """An empty repository there."""
    from pastmaster import Repository

    with Repository(path) as opened:
        yield opened
