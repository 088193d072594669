"""The one loop of a network: an affine layer, for many networks at once."""

from __future__ import annotations

from typing import Any

from pastmaster.compiled import kernel


@kernel
def affine(x: Any, weights: Any, biases: Any, out: Any) -> None:
    """out[p, r] = biases[p] + x[p, r] @ weights[p], float32 [P, n, m] by [P, m, d].

    Every sum is taken in the order of m, so that a row's result does not depend on the rows beside it, as it does in
    BLAS. Four terms a pass: the row stays in registers four times as long.
    """
    m, d = weights.shape[1:]
    for p in range(x.shape[0]):
        for r in range(x.shape[1]):
            row, inputs = out[p, r], x[p, r]
            for j in range(d):
                row[j] = biases[p, j]
            whole = m - m % 4
            for k in range(0, whole, 4):
                a, b, c, e = inputs[k], inputs[k + 1], inputs[k + 2], inputs[k + 3]
                for j in range(d):
                    row[j] = (
                        ((row[j] + a * weights[p, k, j]) + b * weights[p, k + 1, j]) + c * weights[p, k + 2, j]
                    ) + e * weights[p, k + 3, j]
            for k in range(whole, m):
                a = inputs[k]
                for j in range(d):
                    row[j] += a * weights[p, k, j]
