"""docs/reproduction.md from a reproduction on ten seeds: the claims table and the figures.

pastmaster reproduce --seed 100 --seeds 10 --out ten-seeds && python -m benchmarks.reproduction ten-seeds
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import write_table

PAGE = Path(__file__).parent.parent / "docs" / "reproduction.md"
PICTURES = {
    "reproduction-algorithms": "algorithm-comparison/learning-curves",
    "reproduction-gains": "clustering-gains/gains",
    "reproduction-reward": "reward-summary/cumulative-reward",
    "reproduction-clusterings": "clustering-comparison/scores",
    "reproduction-clustering-exp3": "clustering-comparison/learning-curves-exp3",
    "reproduction-clustering-ppr": "clustering-comparison/learning-curves-ppr",
    "reproduction-time": "time-comparison/learning-curves",
    "reproduction-useless": "useless-sources/learning-curves",
    "reproduction-worst-case": "worst-case-cost/scores",
    "reproduction-complex": "complex-domain/cumulative-reward",
    "reproduction-corrections": "corrections/scores",
    "reproduction-coloured-grid": "coloured-grid/clusters",
    "reproduction-windy": "windy-clusters/average-and-worst-case",
    "reproduction-windy-corrections": "windy-clusters/corrections",
    "reproduction-incremental": "windy-incremental/incremental",
}
SHOWN = 3


def run(folder: str) -> None:
    out = Path(folder)
    told = json.loads((out / "claims.json").read_text(encoding="utf-8"))
    first = out / f"seed-{told['seeds'][0]}"
    for name, source in PICTURES.items():
        shutil.copyfile(first / f"{source}.png", PAGE.parent / "images" / f"{name}.png")
    n = len(told["seeds"])
    good = sum(claim["reproduced"] for claim in told["claims"])
    intro = (
        f"{good} of {len(told['claims'])} claims reproduced: held on at least 9 of {n} seeds ({told['seeds'][0]} to "
        f"{told['seeds'][-1]}). pastmaster {told['version']}, {told['machine']}."
    )
    header = "claim | held on | measured: first seed (95% interval); least to most of all seeds"
    write_table("claims", intro, header, [_line(claim, n) for claim in told["claims"]], PAGE)
    _write_scores("scores", out, told["seeds"], "algorithm-comparison/numbers.csv", "algorithm", "clustering")
    _write_scores("corrections", out, told["seeds"], "corrections/corrections.csv", "variant")
    _write_scores("useless", out, told["seeds"], "useless-sources/numbers.csv", "algorithm")
    _copy_table("complex", "Cumulative reward of 10,000 episodes, first seed:", first / "complex-domain" / "table.csv")


def _write_scores(section: str, out: Path, seeds: list[int], file_name: str, *names: str) -> None:
    """The score in each setting, by the columns ``names``: mean, least and most of all seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    for seed in seeds:
        with (out / f"seed-{seed}" / file_name).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                name = ", ".join(filter(None, (row[name] for name in names)))
                found.setdefault(name, {}).setdefault(row["setting"], []).append(float(row["score"]))
    lines = []
    for name, scores in found.items():
        cells = (f"{sum(s) / len(s):.0f} ({min(s):.0f} .. {max(s):.0f})" for s in scores.values())
        lines.append(f"| {name} | {' | '.join(cells)} |")
    heads = (re.sub(r" previous tasks, (\d) targets?", r" / \1", name) for name in next(iter(found.values())))
    write_table(
        section, f"Score, mean (least .. most) of the {len(seeds)} seeds:", " | ".join(["", *heads]), lines, PAGE
    )


def _copy_table(section: str, intro: str, path: Path) -> None:
    """A CSV file as a table of the page, four digits to a number."""
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    write_table(section, intro, " | ".join(head), [f"| {' | '.join(map(_short, row))} |" for row in rows], PAGE)


def _short(cell: str) -> str:
    if not re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?", cell):
        return cell
    return f"{float(cell):,.0f}" if abs(float(cell)) >= 1000 else f"{float(cell):.4g}"


def _line(claim: dict[str, Any], n: int) -> str:
    held = f"{sum(claim['held'])} of {n}"
    verdict = f"**{held}**" if claim["reproduced"] else f"{held}, **failed**"
    checks = list(zip(claim["checks"], claim["checks_held"], claim["values"], strict=True))
    judged = [one for one in checks if one[1] is not None]
    against = [one for one in judged if one[1] < 0.9 * n]
    texts = [_check(*one, n) for one in (against or checks)[:SHOWN]]
    if len(against) > SHOWN:
        texts.append(f"and {len(against) - SHOWN} more that failed")
    if not against and len(checks) > SHOWN:
        texts.append(f"and {len(checks) - SHOWN} more")
    if against and len(judged) > len(against):
        texts.append(f"{len(judged) - len(against)} other checks held on at least 9")
    why = f"<br>*Why, we think:* {claim['reason']}" if claim["reason"] else ""
    return f"| **{claim['id']}**<br>{claim['sentence']}{why} | {verdict} | {';<br>'.join(texts)} |"


def _check(check: dict[str, Any], count: int | None, values: list[float], n: int) -> str:
    spread = "" if check["low"] is None else f" ({check['low']:.3g} .. {check['high']:.3g})"
    wanted = f", wanted {check['wanted']}: on {count} of {n}" if count is not None else ""
    reach = f"; {min(values):.3g} to {max(values):.3g}"
    return f"{check['name']}: {check['value']:.3g}{spread}{reach} {check['unit']}{wanted}"


if __name__ == "__main__":
    run(sys.argv[1])
