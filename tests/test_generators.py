"""The states of generators: written, read back, and refused where NumPy cannot take them or must not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pastmaster import Exp3Transfer, InvalidInputError
from pastmaster.generators import rng_from_dict, rng_to_dict

KINDS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def state_of(kind: str, seed: int = 3) -> dict:
    rng = np.random.Generator(getattr(np.random, kind)(seed))
    rng.random(5)
    rng.integers(9, size=3, dtype=np.uint32)  # half of a number is left
    return json.loads(json.dumps(rng_to_dict(rng)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_goes_on_where_it_was(kind):
    first, second = rng_from_dict(state_of(kind)), rng_from_dict(state_of(kind))
    assert first.integers(9, size=5, dtype=np.uint32).tolist() == second.integers(9, size=5, dtype=np.uint32).tolist()
    assert rng_to_dict(first) == rng_to_dict(second)
    assert first.random(1000).tolist() == second.random(1000).tolist()


WRONG = [
    ("MT19937", ["state", "pos"], 625),
    ("MT19937", ["state", "pos"], 10**9),
    ("MT19937", ["state", "pos"], -1),
    ("MT19937", ["state", "key"], [1] * 623),
    ("MT19937", ["state", "key"], [2**32] * 624),
    ("Philox", ["buffer_pos"], 5),
    ("Philox", ["buffer_pos"], 10**9),
    ("Philox", ["buffer"], [0] * 3),
    ("Philox", ["state", "counter"], [2**64] * 4),
    ("PCG64", ["state", "inc"], 2**128 + 1),
    ("PCG64", ["uinteger"], 2**32),
    ("SFC64", ["state", "state"], [0] * 5),
]


@pytest.mark.parametrize(("kind", "path", "value"), WRONG)
def test_a_state_that_is_none_is_refused(kind, path, value):
    state = state_of(kind)
    place = state
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(InvalidInputError, match=r"^from_dict: rng.* must "):
        rng_from_dict(state)


@pytest.mark.parametrize("seed", [None, 2**53 - 1, 2**128 - 1])
def test_a_selector_of_any_seed_is_read_back(seed):
    made = Exp3Transfer(2, 10, bounds=(0, 1), rng=seed)
    assert Exp3Transfer.from_dict(json.loads(json.dumps(made.to_dict()))).seed == made.seed
