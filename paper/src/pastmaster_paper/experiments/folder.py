"""The folder of a reproduction, and what ``sentences.json`` in it holds.

OUT/sentences.json                     each sentence: its figures and its verdict under each reading
OUT/sentences.csv                      the same figures, a row for each draw
OUT/figures/<experiment>/*.csv         tables, and charts as <kind>-<name>.csv with their title in a comment
OUT/figures/<experiment>/*.png, *.svg  pictures
OUT/units/                             results of units, from which the same command continues
"""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pastmaster import DamagedError, InvalidInputError
from pastmaster_paper.experiments.charts import Columns, read_text, write_table
from pastmaster_paper.experiments.pooled import ENOUGH, HOLDS, NOT_JUDGED, RULES, VERDICTS, Pooled
from pastmaster_paper.experiments.readings import checked_seed
from pastmaster_paper.experiments.sentences import Case, Judged
from pastmaster_paper.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = 2
JUDGED, UNITS, FIGURES = "sentences.json", "units", "figures"
MODES = ("full", "quick")
COLOURS = 64  # of a picture
MANY = {HOLDS: "hold"}


@dataclass(frozen=True)
class Told:
    """A sentence as a reader sees it: its number, its lines in the paper, what it says, the experiment behind it."""

    id: int
    lines: str
    words: str
    experiment: str


@dataclass(frozen=True)
class Reproduction:
    """A reproduction: where it is, what was run, and what became of each sentence.

    Attributes
    ----------
    out : Path
        The folder of its files.
    mode : str
        "full", or "quick" for a few runs that judge nothing.
    seeds : tuple of int
        The seeds that were run: each draws other tasks.
    machine, version : str
        The machine, and the version of pastmaster.
    readings : dict
        The settings of each reading, by its name.
    experiments, findings : dict, tuple of str
        The titles of the experiments by name, and which of them are ours and not the paper's.
    sentences : list of Told
        The sentences that were measured.
    judged : list of Judged
        Each sentence under each reading; under "" those that no reading changes.
    replaced : bool
        Whether the files of an earlier reproduction in this folder were removed.
    """

    out: Path
    mode: str
    seeds: tuple[int, ...]
    machine: str
    version: str
    readings: Mapping[str, Mapping[str, Any]]
    experiments: Mapping[str, str]
    findings: tuple[str, ...]
    sentences: Sequence[Told]
    judged: Sequence[Judged]
    replaced: bool = False

    def under(self, reading: str) -> dict[int, Judged]:
        """What became of each sentence under a reading, by number."""
        return {one.id: one for one in self.judged if one.reading in ("", reading)}

    def counts(self, reading: str) -> dict[str, int]:
        """How many sentences have each verdict under a reading."""
        found = Counter(one.verdict for one in self.under(reading).values())
        return {verdict: found[verdict] for verdict in (*VERDICTS, NOT_JUDGED) if found[verdict]}

    @property
    def verdict(self) -> str:
        """How many sentences hold under each reading, in a sentence that fits the run."""
        if not self.sentences:
            return self.subject
        if self.mode == "quick":
            return f"{self.subject} measured in a few runs, none judged"
        return "; ".join([self.subject, *(f"{reading}: {self.counted(reading)}" for reading in self.readings)])

    @property
    def subject(self) -> str:
        """How many sentences there are."""
        if not self.sentences:
            return "no sentence is about these experiments"
        return f"{len(self.sentences)} sentence{'' if len(self.sentences) == 1 else 's'}"

    def counted(self, reading: str) -> str:
        """How many sentences have each verdict under a reading, in words."""
        told = ", ".join(f"{n} {MANY.get(verdict, verdict)}" for verdict, n in self.counts(reading).items())
        return told or "nothing measured"

    @property
    def caveat(self) -> str:
        """What a reader must know about the verdicts; empty where there are draws enough."""
        if self.mode == "quick" or len(self.seeds) >= ENOUGH or not self.sentences:
            return ""
        return f"{len(self.seeds)} of the {ENOUGH} draws on which sentences are judged: verdicts may change"

    def __repr__(self) -> str:
        draws = f"{len(self.seeds)} draw{'s' if len(self.seeds) > 1 else ''}"
        return f"Reproduction({self.mode}, {draws}: {self.verdict}, in {self.out})"


def write_judged(found: Reproduction) -> None:
    """Write ``sentences.json`` and ``sentences.csv``."""
    content = {
        "schema": SCHEMA, "mode": found.mode, "seeds": list(found.seeds), "machine": found.machine,
        "version": found.version, "readings": dict(found.readings), "experiments": dict(found.experiments),
        "findings": list(found.findings), "sentences": [vars(one) for one in found.sentences],
        "judged": [one.table() for one in found.judged],
    }  # fmt: skip
    rows = [
        [one.id, one.reading or "any", case.name, case.what, case.unit, case.wanted, seed, value]
        for one in found.judged
        for case in one.cases
        for seed, value in zip(found.seeds, case.figure.values, strict=True)
    ]
    head = ["sentence", "reading", "case", "what", "unit", "wanted", "seed", "value"]
    write_table(found.out, "sentences", Columns(head, rows))
    write_bytes(found.out / JUDGED, (json.dumps(content, indent=1) + "\n").encode())


def read_judged(folder: Path) -> Reproduction:
    """The reproduction in this folder, without its tables and charts."""
    path = folder / JUDGED
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DamagedError(f"{path} is not JSON: {error.msg} (line {error.lineno})") from None
    except (ValueError, RecursionError) as error:  # numbers of too many digits, lists too deep
        raise DamagedError(f"{path} is not JSON that can be read: {str(error)[:100]}") from None
    schema = content.get("schema", SCHEMA) if isinstance(content, dict) else SCHEMA
    if schema != SCHEMA:
        raise InvalidInputError(
            f"{path}: schema is {repr(schema)[:80]}, must be {SCHEMA}: written by another pastmaster"
        )
    try:
        seeds = _seeds(content)
        titles = {str(name): str(title) for name, title in content["experiments"].items()}
        readings = {str(name): dict(table) for name, table in content["readings"].items()}
        sentences = [
            Told(int(one["id"]), *(str(one[name]) for name in ("lines", "words", "experiment")))
            for one in content["sentences"]
        ]
        judged = [_judged(one, len(seeds), readings) for one in content["judged"]]
        mode, machine, version = (str(content[name]) for name in ("mode", "machine", "version"))
        findings = tuple(str(name) for name in content["findings"])
        return Reproduction(
            folder, MODES[MODES.index(mode)], seeds, machine, version, readings, titles, findings, sentences, judged
        )
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DamagedError(f"{path} is not as `reproduce` writes it: {error!r}"[:300]) from None


def _seeds(content: dict[str, Any]) -> tuple[int, ...]:
    return tuple(checked_seed(JUDGED, seed) for seed in content["seeds"])


def _judged(entry: dict[str, Any], n_seeds: int, readings: Iterable[str]) -> Judged:
    """A sentence under a reading from JSON, every field of its type."""
    cases = [
        Case(
            str(one["name"]), str(one["what"]), str(one["unit"]), _wanted(one["wanted"]),
            _pooled(one["figure"], n_seeds), _verdict(one["verdict"]) if one["wanted"] else "",
        )
        for one in entry["cases"]
    ]  # fmt: skip
    reading = str(entry["reading"])
    if reading and reading not in readings:
        raise ValueError(f"{reading[:80]!r} is no reading of this file")
    return Judged(int(entry["id"]), reading, _verdict(entry["verdict"]), cases)


def _wanted(text: Any) -> str:
    """What is wanted of a figure: a rule and a limit, or nothing."""
    if text:
        rule, limit = str(text).split()
        _ = RULES[rule], _number(float(limit))
    return str(text or "")


def _verdict(text: Any) -> str:
    if text not in (*VERDICTS, NOT_JUDGED):
        raise ValueError(f"{str(text)[:80]!r} is no verdict")
    return str(text)


def _pooled(entry: dict[str, Any], n_seeds: int) -> Pooled:
    values = tuple(_number(value) for value in entry["values"])
    if len(values) != n_seeds or not n_seeds:
        raise ValueError(f"a figure has {len(values)} values for {n_seeds} seeds")
    low, high, least, most = (
        None if entry[name] is None else _number(entry[name])
        for name in ("low", "high", "bootstrap_low", "bootstrap_high")
    )
    if (low is None) != (high is None) or (least is None) != (most is None):
        raise ValueError("an interval has one end")
    return Pooled(_number(entry["mean"]), low, high, least, most, values)


def _number(value: Any) -> float:
    if isinstance(value, str) or not math.isfinite(value):
        raise ValueError(f"{str(value)[:80]} is no number")
    return float(value)


def clear(out: Path, experiments: Iterable[str]) -> bool:
    """Remove the tables, pictures and verdicts of an earlier reproduction in this folder; whether there was one."""
    if not (out / JUDGED).is_file():
        return False
    for name in experiments:
        place = out / FIGURES / name
        for path in () if place.is_symlink() else place.glob("*"):
            if path.suffix in (".csv", ".png", ".svg") and not path.is_dir():
                path.unlink()
        with suppress(OSError):  # something else is in it
            place.rmdir()
    with suppress(OSError):
        (out / FIGURES).rmdir()
    (out / "sentences.csv").unlink(missing_ok=True)
    (out / JUDGED).unlink()
    return True


def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, of few colours so that a page holds many, and as SVG: the same bytes for the same one."""
    from matplotlib import rc_context
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100, metadata={"Software": None})
    Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    write_bytes(path.with_suffix(".png"), small.getvalue())
    with rc_context({"svg.hashsalt": "pastmaster"}):
        vectors = io.BytesIO()
        figure.savefig(vectors, format="svg", metadata={"Date": None})
    write_bytes(path.with_suffix(".svg"), vectors.getvalue())
