"""The folder of a reproduction, and what ``claims.json`` in it holds.

OUT/claims.json                        each claim, on how many seeds it held, the measurements of the first seed
OUT/seed-0/claims.json                 the same for one seed
OUT/seed-0/<experiment>/*.csv          tables, and charts as <kind>-<name>.csv with their title in a comment
OUT/seed-0/<experiment>/*.png, *.svg   pictures, for the first seed only
OUT/units/                             results of units, from which the same command continues
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pastmaster.checks import whole
from pastmaster.errors import DamagedError, InvalidInputError, PastmasterError
from pastmaster.experiments.charts import read_text
from pastmaster.experiments.claims import Check, Claim
from pastmaster.files import from_json, write_whole
from pastmaster.tables import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = 1
CLAIMS, UNITS = "claims.json", "units"
MODES = ("full", "quick")
ENOUGH_SEEDS = 10
"""From this many seeds on, claims are called reproduced or not."""


@dataclass(frozen=True)
class Reproduction:
    """A reproduction: where it is, what was run, and what became of each claim.

    Attributes
    ----------
    out : Path
        The folder of its files.
    mode : str
        "full", or "quick" for a few runs that judge nothing.
    seeds : tuple of int
        The seeds that were run.
    machine, version : str
        The machine, and the version of pastmaster.
    experiments : dict
        The titles of the experiments by name.
    claims : list of Claim
        Each claim over all seeds.
    replaced : bool
        Whether the files of an earlier reproduction in this folder were removed.
    """

    out: Path
    mode: str
    seeds: tuple[int, ...]
    machine: str
    version: str
    experiments: Mapping[str, str]
    claims: list[Claim]
    replaced: bool = False

    @property
    def verdict(self) -> str:
        """How many claims held, in a sentence that fits the run."""
        count = f"{len(self.claims)} claim{'' if len(self.claims) == 1 else 's'}"
        if self.mode == "quick":
            return f"{count} measured in a few runs, none judged"
        good = sum(bool(claim.reproduced) for claim in self.claims)
        return f"{good} of {count} {'reproduced' if len(self.seeds) >= ENOUGH_SEEDS else 'held'}"

    def __repr__(self) -> str:
        seeds = f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''}"
        return f"Reproduction({self.mode}, {seeds}: {self.verdict}, in {self.out})"

    def seed_folder(self, seed: int) -> Path:
        """Where the tables and pictures of a seed are."""
        return self.out / f"seed-{seed}"


def write_claims(found: Reproduction) -> None:
    """Write ``claims.json``."""
    content = {
        "schema": SCHEMA, "mode": found.mode, "seeds": list(found.seeds), "machine": found.machine,
        "version": found.version, "experiments": dict(found.experiments), "claims": [asdict(c) for c in found.claims],
    }  # fmt: skip
    write_whole(found.out / CLAIMS, (json.dumps(content, indent=1) + "\n").encode())


def read_claims(folder: Path) -> Reproduction:
    """The reproduction in this folder, without its tables and charts."""
    path = folder / CLAIMS
    try:
        content = from_json(read_text(path), str(path))
    except InvalidInputError as error:
        raise DamagedError(str(error)) from None
    schema = content.get("schema", SCHEMA) if isinstance(content, dict) else SCHEMA
    if schema != SCHEMA:
        got = one_line(repr(schema), 80)
        raise InvalidInputError(f"{path}: schema is {got}, must be {SCHEMA}: written by another pastmaster")
    try:
        seeds = _seeds(content)
        titles = {str(name): str(title) for name, title in content["experiments"].items()}
        claims = [_claim(one, len(seeds)) for one in content["claims"]]
        mode, machine, version = (str(content[name]) for name in ("mode", "machine", "version"))
        return Reproduction(folder, MODES[MODES.index(mode)], seeds, machine, version, titles, claims)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DamagedError(f"{path} is not as `pastmaster reproduce` writes it: {error!r}"[:300]) from None


def _seeds(content: dict[str, Any]) -> tuple[int, ...]:
    return tuple(whole(CLAIMS, "seed", seed, at_least=0) for seed in content["seeds"])


def _claim(entry: dict[str, Any], n_seeds: int) -> Claim:
    """A claim from JSON, every field of its type."""
    checks = [
        Check(
            str(one["name"]), _number(one["value"]), _number(one["low"]), _number(one["high"]),
            str(one["unit"]), str(one["wanted"]), _flag(one["held"]),
        )
        for one in entry["checks"]
    ]  # fmt: skip
    held = [bool(one) for one in entry["held"]]
    counts = [None if count is None else int(count) for count in entry["checks_held"]]
    if len(held) != n_seeds or not n_seeds or len(counts) != len(checks):
        raise ValueError(f"{entry['id']} has {len(held)} results for {n_seeds} seeds")
    id, sentence, experiment, reason = (str(entry[name]) for name in ("id", "sentence", "experiment", "reason"))
    values = [[_number(value) for value in one] for one in entry["values"]]
    return Claim(id, sentence, experiment, held, _flag(entry["reproduced"]), reason, checks, counts, values)


def _number(value: Any) -> float | None:
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{value} is no number")
    return None if value is None else float(value)


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


def clear(out: Path, experiments: Iterable[str]) -> bool:
    """Remove the tables, pictures and claims of an earlier reproduction in this folder; whether there was one."""
    try:
        content = from_json(read_text(out / CLAIMS), CLAIMS)
        places = [out / f"seed-{seed}" for seed in _seeds(content)]
    except (PastmasterError, LookupError, TypeError):
        return False
    for place in places:
        for name in experiments:
            for path in () if (place / name).is_symlink() else (place / name).glob("*"):
                if path.suffix in (".csv", ".png", ".svg") and not path.is_dir():
                    path.unlink()
            with suppress(OSError):  # something else is in it
                (place / name).rmdir()
        (place / CLAIMS).unlink(missing_ok=True)
        with suppress(OSError):
            place.rmdir()
    (out / CLAIMS).unlink()
    return True


def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure as PNG and as SVG, the same bytes for the same figure."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "pastmaster"}):
        for suffix, varying in (("png", "Software"), ("svg", "Date")):
            stream = io.BytesIO()
            figure.savefig(stream, format=suffix, dpi=110, metadata={varying: None})
            write_whole(path.with_suffix(f".{suffix}"), stream.getvalue())
