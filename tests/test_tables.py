"""Names as tables, pages and pictures show them."""

from __future__ import annotations

import pytest

from pastmaster.tables import told_apart

LENGTHS = [f"pastmaster/CartPole-v0(length={length}, gravity=9.8)" for length in (0.3, 0.5, 1.25)]
CASES = {
    "short ones are as they are": (["a", "b(x=1)"], ["a", "b(x=1)"]),
    "arguments that all have are left out": (LENGTHS, ["length=0.3", "length=0.5", "length=1.25"]),
    "so they are at the end": (
        [f"an/environment-v0(depth=1, noise=0.25, mass={mass})" for mass in (1, 2)], ["mass=1", "mass=2"],
    ),
    "and where they are many": (
        [f"environment-v0(a={a}, b=1, c={c})" for a, c in ((1, 2), (2, 2), (1, 3))],
        ["a=1, c=2", "a=2, c=2", "a=1, c=3"],
    ),
    "folders that all are in are left out": (
        ["drawer/of/policies/one.zip", "drawer/of/policies/two.zip"], ["one.zip", "two.zip"],
    ),
    "the middle is left out, where there are no arguments": (
        ["a policy that was trained on ice", "a policy that was trained on sand"],
        ["a policy... on ice", "a policy...on sand"],
    ),
    "an environment without arguments keeps its name": (
        ["environment-of-somebody-v0", "environment-of-somebody-v0(depth=1)"],
        ["environm...body-v0", "environm...epth=1)"],
    ),
    "names that are the same stay the same": ([LENGTHS[0]] * 2, ["pastmast...ty=9.8)"] * 2),
    "what a terminal obeys is an escape": (["a\x1b", "b"], ["a\\x1b", "b"]),
    "none": ([], []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_names_side_by_side_show_what_differs(case):
    names, wanted = CASES[case]
    found = told_apart(names, 18)
    assert found == wanted
    assert len(set(found)) == len(set(names))
    assert told_apart(names, 100) == [repr(name)[1:-1] for name in names]


def test_no_name_is_longer_than_there_is_room_for(rng):
    letters = list("ab,/( =1")
    for _ in range(200):
        names = ["".join(rng.choice(letters, size=rng.integers(1, 60))) for _ in range(4)]
        found = told_apart(names, 20)
        assert max(map(len, found)) <= 20
        assert all(found)
