"""The worked example runs in its quick version, from a folder of its own, and says and draws what it should."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PNG = b"\x89PNG\r\n\x1a\n"

pytestmark = pytest.mark.long(5)


def test_the_opponents_tell_how_many_policies_stand_for_all_and_what_new_ones_cost(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["opponents.py", "--quick", "--out", str(tmp_path / "out")])
    runpy.run_path(str(EXAMPLES / "opponents.py"), run_name="__main__")
    printed = capsys.readouterr().out
    losses = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+) +[\d.]+%$", printed, re.MULTILINE)
    assert [int(size) for size, *_ in losses] == [1, 2, 3, 4, 6, 8]
    means = [float(mean) for _, mean, _ in losses]
    assert means == sorted(means, reverse=True)
    assert all(float(mean) <= float(largest) for _, mean, largest in losses)
    kept = re.search(r"^kept: the best responses to (.+)$", printed, re.MULTILINE)[1].split(", ")
    assert 1 <= len(kept) <= 8
    kind = r"(?:rock|calling station|tight-aggressive|maniac|random|near-equilibrium)"
    rows = re.findall(rf"^{kind} \d+ +(-?[\d.]+) +(-?[\d.]+) +(-?[\d.]+) +(-?[\d.]+) ", printed, re.MULTILINE)
    assert len(rows) == 2
    for best, best_kept, *_ in rows:
        assert float(best_kept) <= float(best)
    reused = (f"{len(kept)} policies, {how}informed, and Q-learning" for how in ("", "not "))
    for way in (*reused, "Q-learning alone"):
        assert re.search(rf"^all, {way}: 90% after (> )?[\d,]+ hands \(median\); -?\d+% in 30, ", printed, re.MULTILINE)
    assert (tmp_path / "out" / "opponents.png").read_bytes().startswith(PNG)
