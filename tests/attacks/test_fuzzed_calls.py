"""Odd arguments for every public function: a call returns, or raises an error of ours with a short sentence.

An attempt is a public name, and the odd value that takes the place of each of some arguments: all by name, so that it
can be written down. Attempts come from seeds; what once broke is in ``CORPUS``, which always runs in full. Calls are
made in processes of their own: one that crashes or hangs costs its process, and is counted.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import faults
import numpy as np
import odd
import pytest
from attempts import Tally
from public_calls import EXEMPT, public_names, recipes, world

from pastmaster.errors import InvalidInputError, PastmasterError

SEED = 16
FULL, BRIEF, PARTS, CHUNK = 50_000, 1_500, 2, 2_000
PATIENCE, MEMORY, LONGEST = 10.0, 3 * 2**30, 500  # seconds of processor time, bytes, characters of a message
STUCK = 120.0  # seconds without a next call, on a busy machine too
HUGE = 1000  # where a number is an amount of work, numbers from here to 10^12 are honest requests

pytestmark = [pytest.mark.repeated, pytest.mark.long(30)]


class Attempt(NamedTuple):
    """A call of a public name with odd values in the place of some arguments."""

    name: str
    odd: dict[str, str]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.odd.items())})"


BROKE = Path(__file__).with_name("corpus") / "calls" / "broke.json"
"""What once broke: [name, {argument: odd value}, ...]."""


def attempt_of(seed: int) -> Attempt:
    """The attempt that a seed stands for: one to three arguments of a recipe are replaced."""
    rng = np.random.default_rng([SEED, seed])
    known = [name for name, recipe in recipes().items() if recipe.arguments is not dict]
    weights = np.array([recipes()[name].weight for name in known])
    name = known[rng.choice(len(known), p=weights / weights.sum())]
    recipe = recipes()[name]
    right = recipe.arguments()
    count = min(len(right), int(rng.choice([1, 1, 1, 2, 3])))
    replaced = [list(right)[i] for i in rng.choice(len(right), count, replace=False)]
    return Attempt(name, {key: _chosen(rng, right[key], key in recipe.work) for key in replaced})


def _chosen(rng: np.random.Generator, right: Any, is_work: bool) -> str:
    """The name of an odd value that can be made of a right one; no amount of work that takes for ever."""
    while True:
        name = odd.names()[rng.integers(len(odd.names()))]
        try:
            value = odd.odd(name, right)
        except odd.ImpossibleError:
            continue
        if not (is_work and (name == "endless" or _is_much(value))):
            return name


def _is_much(value: Any) -> bool:
    try:
        return bool(HUGE <= value < 10**12)
    except Exception:  # no number
        return False


class OverdueError(BaseException):
    """A call takes too long."""


def broken_by(attempt: Attempt) -> str | None:
    """Why an attempt broke the promise, or None."""
    recipe = recipes()[attempt.name]
    arguments = recipe.arguments()
    arguments |= {key: odd.odd(name, arguments[key]) for key, name in attempt.odd.items()}
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = recipe.call(arguments)
            _ = repr(result), str(result)
    except OverdueError:
        return f"takes longer than {PATIENCE:g} seconds"
    except PastmasterError as error:
        return _poor_sentence(error)
    except odd.OwnError:
        return None
    except BaseException as error:
        return f"{type(error).__name__}: {_safe(error)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return None


def damage_done() -> str | None:
    """What the latest calls of a repository's methods have done to it, or None."""
    damage = world().damage()
    return f"it or one of those before it leaves damage: {damage[0]}" if damage else None


def _poor_sentence(error: Exception) -> str | None:
    text = str(error)
    if len(text) > LONGEST:
        return f"a message of {len(text)} characters: {_safe(error)}"
    try:
        text.encode()
    except UnicodeError:
        return f"a message that cannot be printed: {_safe(error)}"
    return None


def _safe(error: BaseException) -> str:
    try:
        return ascii(str(error))[:200]
    except Exception:
        return "(no message)"


def work(attempts: Sequence[Attempt | int], place: str) -> None:
    """Attempts, or those of seeds, one after the other in a process of its own; a log tells how far it came."""
    signal.signal(signal.SIGPROF, _overdue)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tempfile.tempdir = str(Path(place).parent)
    os.chdir(world().folder)  # odd paths are made here, not there
    _limit_memory()
    sys.stderr = sys.stdout = open(os.devnull, "w")  # noqa: SIM115  progress bars
    with open(place, "a", buffering=1) as log:
        for i, given in enumerate(attempts):
            attempt = attempt_of(given) if isinstance(given, int) else given
            log.write(json.dumps([i, str(attempt)]) + "\n")
            if (why := broken_by(attempt) or damage_done()) is not None:
                log.write(json.dumps([i, str(attempt), why]) + "\n")
        log.write("[]\n")


def _overdue(*_: Any) -> None:
    raise OverdueError


def _limit_memory() -> None:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


def attack(attempts: Sequence[Attempt | int], tally: Tally, folder: Path) -> None:
    """Make all attempts, each chunk in a process, which is replaced if it dies or hangs."""
    while attempts:
        chunk, log = attempts[:CHUNK], folder / f"{len(attempts)}.log"
        log.touch()
        process = faults.start(work, chunk, str(log))
        hangs = _watched(process, log)
        lines = [json.loads(line) for line in log.read_text().split("\n")[:-1]]
        for line in lines:
            if len(line) == 3:
                tally.failed(f"{_told(chunk[line[0]])}{line[1]}: {line[2]}")
        done = bool(lines) and lines[-1] == []
        reached = len(chunk) if done else lines[-1][0] + 1 if lines else 1
        if not done:
            end = "hangs" if hangs else f"its process ended with {process.exitcode}"
            tally.failed(f"{_told(chunk[reached - 1])}{lines[-1][1] if lines else 'the start'}: {end}")
        tally.survived(reached - sum(len(line) == 3 for line in lines) - (not done))
        attempts = attempts[reached:]


def _told(given: Attempt | int) -> str:
    return f"seed {given}, " if isinstance(given, int) else ""


def _watched(process: Any, log: Path) -> bool:
    """Wait for a process; one that makes no next attempt for long is killed."""
    size, since = 0, time.monotonic()
    while process.is_alive():
        process.join(0.2)
        if log.stat().st_size != size:
            size, since = log.stat().st_size, time.monotonic()
        if time.monotonic() - since > STUCK:
            process.kill()
            process.join()
            return True
    return False


WHAT, PROMISE = "odd arguments for public functions", "a result, or an error of ours in a short sentence"


@pytest.mark.parametrize("part", range(PARTS))
def test_a_call_with_odd_arguments_returns_or_raises_an_error_of_ours(
    part: int, attempts: Callable[[str, str], Tally], tmp_path: Path
) -> None:
    calls = faults.repetitions(FULL, BRIEF)
    attack(range(part, calls, PARTS), attempts(WHAT, PROMISE), tmp_path)


def test_what_once_broke_does_not(attempts: Callable[[str, str], Tally], tmp_path: Path) -> None:
    attack([Attempt(*entry) for entry in json.loads(BROKE.read_text())], attempts(WHAT, PROMISE), tmp_path)


def test_every_public_name_has_a_recipe_or_a_reason_to_have_none() -> None:
    known = {name.split(",")[0] for name in recipes()} | {n for names in EXEMPT.values() for n in names.split()}
    assert sorted(set(public_names()) - known) == []
    assert sorted(known - set(public_names())) == []


def test_every_recipe_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, recipe in recipes().items():
        try:
            assert repr(recipe.call(recipe.arguments())), name
        except InvalidInputError as error:
            if "pip install" not in str(error):  # an extra that is not here
                raise
