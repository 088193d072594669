"""Compiled episodes of a table in a model, drawn as the environment draws them: arrays in, arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np

from pastmaster.compiled import kernel


@kernel
def play(
    reach, next_state, reward, terminated, gamma, horizon, start_reach, start_states, table, chances, own_chances, out
):  # fmt: skip
    """The returns of episodes, one to a row of ``chances`` [n, horizon + 1]: the start's number, then each step's.

    Of outcomes and starts the first is taken whose reach (cumulative probability) is above the number. ``table`` holds
    the reach of actions [S, A]; ``own_chances`` [n, horizon] are the policy's numbers.
    """
    for e in range(len(out)):
        i = 0
        while chances[e, 0] >= start_reach[i]:
            i += 1
        s = start_states[i]
        total, weight = 0.0, 1.0
        for n in range(horizon):
            a, k = 0, 0
            while own_chances[e, n] >= table[s, a]:
                a += 1
            while chances[e, n + 1] >= reach[s, a, k]:
                k += 1
            total += weight * reward[s, a, k]
            weight *= gamma
            if terminated[s, a, k]:
                break
            s = next_state[s, a, k]
        out[e] = total


def reached(table: Any, n_actions: int) -> Any:
    """Actions [S] as reach [S, A]: whatever number is drawn, it is that action."""
    chosen = np.arange(n_actions)[None] >= np.asarray(table)[:, None]
    return np.where(chosen, 2.0, 0.0)
