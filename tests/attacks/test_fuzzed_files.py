"""Files that were changed at random, for every reader there is: each is read, or refused by an error of ours.

A file is made from its reader's name and a number alone, so a number that fails can be tried again. The loop runs in a
process of its own: a crash is counted, and the loop goes on after the file that caused it. What once broke a reader is
in the folder ``corpus``, which is always tried in full.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faults
import pytest

CORPUS = Path(__file__).parent / "corpus"
PROMISE = "read, or refused by an error of ours, in bounded time and memory"
LONGEST = 20.0  # seconds for one file
MOST_MEMORY = 2**30  # bytes that a process may grow by
COUNTS = {  # files under soak, and in ``make test``
    "task-npz": (1500, 20),
    "policy-npy": (800, 20),
    "sb3-zip": (1500, 20),
    "onnx-file": (3000, 12),
    "normalisation-npz": (500, 10),
    "network-settings": (800, 20),
    "selector-json": (2500, 30),
    "saved-chunk": (600, 10),
    "repository-file": (400, 6),
    "kwargs-file": (300, 10),
    "scores-csv": (1000, 20),
    "aslib-scenario": (1000, 20),
}


class HangError(BaseException):
    """One file took too long."""


def fuzz(name: str, numbers: list[int], kept: list[str], log: str) -> None:
    """Try files by their numbers, and those that are kept; a line of the log before and after each."""
    import file_readers
    from mutations import mutated

    faulthandler.enable()
    warnings.simplefilter("ignore")
    reader = file_readers.READERS[name]
    folder = Path(tempfile.mkdtemp(prefix="pastmaster-fuzz"))
    try:
        examples = reader.prepare(folder)
        for example, content in list(examples.items())[:3]:
            found = _outcome(reader, folder, example, content)  # and all that it needs is loaded
            assert found == ("read" if reader.good else "refused"), f"{example}: {found}"
        limit = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") + 3 * MOST_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        before = _peak()
        with open(log, "a", buffering=1) as lines:
            for case in [*kept, *numbers]:
                lines.write(f"{json.dumps([case, 'tried'])}\n")
                if isinstance(case, str):
                    example, content = case.partition("~")[0].replace("@", "/"), (CORPUS / name / case).read_bytes()
                else:
                    rng = random.Random(f"{name} {case}")
                    example = rng.choice(list(examples))
                    content = mutated(example, examples[example], rng)
                lines.write(f"{json.dumps([case, _outcome(reader, folder, example, content)])}\n")
            if (grown := _peak() - before) > MOST_MEMORY:
                lines.write(f"{json.dumps(['all of them', f'took {grown:,} bytes'])}\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _try(reader: Any, folder: Path, example: str, content: bytes) -> None:
    def ring(*_: object) -> None:
        raise HangError

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        reader.read(folder, example, content)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _outcome(reader: Any, folder: Path, example: str, content: bytes) -> str:
    from pastmaster import PastmasterError

    try:
        _try(reader, folder, example, content)
        return "read"
    except PastmasterError as error:
        return "refused" if "\n" not in str(error) else f"{example}: not one line: {error}"
    except BaseException as error:
        return f"{example}: {type(error).__name__}: {str(error)[:300]}"


def outcomes(name: str, numbers: list[int], kept: list[str], folder: Path) -> Iterator[tuple[Any, str]]:
    """What became of each file; after a crash a new process goes on with the next."""
    log = folder / "log"
    while kept or numbers:
        log.write_text("")
        process = faults.start(fuzz, name, numbers, kept, str(log))
        process.join(faults.PATIENCE)
        process.kill()
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("]")]
        done = {str(case): outcome for case, outcome in lines}
        yield from ((case, outcome) for case, outcome in done.items() if outcome != "tried")
        if process.exitcode == 0:
            return
        last = next((case for case, outcome in done.items() if outcome == "tried"), None)
        yield last, f"the process ended with {process.exitcode}"
        if last is None:
            return
        kept = kept[kept.index(last) + 1 :] if last in kept else []
        numbers = [number for number in numbers if str(number) not in done]


@pytest.mark.repeated
@pytest.mark.long(8)
@pytest.mark.parametrize("name", COUNTS)
def test_a_changed_file_is_read_or_refused(name, attempts, tmp_path):
    if name == "sb3-zip":
        pytest.importorskip("torch")
    if name == "onnx-file":
        pytest.importorskip("onnxruntime")
    tally = attempts(f"fuzzed files: {name.replace('-', ' ')}", PROMISE)
    found = {"read": 0, "refused": 0}
    kept = sorted(path.name for path in (CORPUS / name).glob("*"))
    for case, outcome in outcomes(name, list(range(faults.repetitions(*COUNTS[name]))), kept, tmp_path):
        if outcome in found:
            found[outcome] += 1
            tally.survived()
        else:
            tally.failed(f"{name} {case}: {outcome}")
    faults.report(f"{name}: {found['read']} read, {found['refused']} refused, {len(tally.failures)} neither")
