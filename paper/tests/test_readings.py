"""Readings as data: the two of ours are frozen, others come from a file."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from pastmaster import InvalidInputError
from pastmaster_paper.__main__ import reproduce as command
from pastmaster_paper.experiments import FIRST_SEED, READINGS, Reading
from pastmaster_paper.experiments.readings import PRINTED, UNDISCOUNTED, checked_readings
from pastmaster_paper.experiments.setting import BY_NAME, SETTINGS


def test_the_two_readings_are_fixed() -> None:
    assert READINGS == {"printed": PRINTED, "undiscounted": UNDISCOUNTED}
    assert PRINTED.table() | {"words": ""} == {
        "name": "printed", "gamma": 0.9, "escape_ends": True, "bounds": "exact", "step_size": 0.5, "sequences": {},
        "check_every": 100, "thresholds": None, "repeats": False, "words": "",
    }  # fmt: skip
    assert UNDISCOUNTED.table() | {"words": ""} == PRINTED.table() | {
        "name": "undiscounted", "gamma": 1.0, "escape_ends": False, "step_size": 0.1,
        "sequences": {"complex-100-2": 4, "complex-200-2": 8}, "words": "",
    }  # fmt: skip
    with pytest.raises(FrozenInstanceError):
        PRINTED.gamma = 0.5  # type: ignore[misc]
    (seed,) = (option for option in command.params if option.name == "seed")
    assert FIRST_SEED == seed.default == 5000
    assert not {1, 2, *range(2000, 2010), *range(3000, 3003)} & set(range(FIRST_SEED, FIRST_SEED + 1000))


def test_sequences_are_those_of_the_notes_unless_a_reading_says_otherwise() -> None:
    assert [PRINTED.n_sequences(one) for one in SETTINGS] == [16, 6, 12, 16, 5, 10, 20, 6, 12]
    assert [UNDISCOUNTED.n_sequences(one) for one in SETTINGS] == [16, 6, 12, 16, 5, 10, 20, 4, 8]
    for name in ("complex-100-2", "complex-200-2"):  # all 25 members of each
        assert UNDISCOUNTED.n_sequences(BY_NAME[name]) * 25 == BY_NAME[name].previous


FILE = """
gamma = 1
escape_ends = false
step_size = 0.2
words = "mine"
[sequences]
complex-100-2 = 8
"""


def test_a_reading_comes_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine-too.toml"
    path.write_text(FILE)
    (found,) = checked_readings([path])
    assert found == Reading("mine-too", 1.0, False, step_size=0.2, sequences=(("complex-100-2", 8),))
    assert isinstance(found.gamma, float)
    assert checked_readings(("printed", str(path))) == (PRINTED, found)
    path.write_text('name = "other"')
    assert checked_readings(path) == (Reading("other"),)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("gamma = 1.5", r"reproduce: reading.gamma is 1.5, must be .*0.* 1"),
        ("gamma = true", "reproduce: reading.gamma is True"),
        ('gamma = "high"', "reproduce: reading.gamma is 'high'"),
        ("gama = 1", "reproduce: reading has 'gama', must have only name, gamma"),
        ('bounds = "wide"', "reproduce: reading.bounds is 'wide', must be"),
        ('bounds = "paper"\ngamma = 1', "reproduce: reading.bounds is 'paper', must be 'exact' where gamma is 1"),
        ("check_every = 0", "reproduce: reading.check_every is 0, must be"),
        ("escape_ends = 1", "reproduce: reading.escape_ends is 1, must be"),
        ('name = "../up"', "reproduce: reading.name is '../up', must be small letters, digits and -"),
        ('name = "printed"\ngamma = 0.5', "reproduce: reading.name is 'printed', must be another name"),
        ("sequences = 3", "reproduce: reading.sequences is 3, must be a table"),
        ("[sequences]\nx = 3", "reproduce: reading.sequences is 'x', must be one of 64-1"),
        ('[sequences]\n"96-2" = 5', r"reproduce: reading.sequences\['96-2'\] is 5, must be .* 6"),
        ('[sequences]\n"64-1" = 17', r"reproduce: reading.sequences\['64-1'\] is 17, must be .* 16"),
        ("gamma = ", "reproduce: reading is .*bad.toml, which is not TOML"),
    ],
)
def test_a_bad_file_is_refused_by_what_is_wrong_in_it(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=f"^{sentence}"):
        checked_readings([path])


def test_what_is_no_reading_is_refused() -> None:
    for given in ("nothing", 3, None):
        with pytest.raises(InvalidInputError, match=r"^reproduce: reading is .*, must be printed, undiscounted, or"):
            checked_readings([given])  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="one or more with different names"):
        checked_readings(["printed", "printed"])
    with pytest.raises(InvalidInputError, match="one or more"):
        checked_readings([])
