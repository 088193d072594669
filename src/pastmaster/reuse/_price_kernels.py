"""A selector that meets a row of a table: no episode is run."""

import numpy as np

from pastmaster.compiled import kernel
from pastmaster.reuse import _layout as at, _selector_kernels as kernels


@kernel
def meet(arms, memory, settings, worth, noise, uniforms, normals):
    """Episodes that pay what the arms are worth, and noise; returns their worth in sum, and the best source by then."""
    nobody, total, best = np.empty(0), 0.0, 0
    for t in range(len(uniforms)):
        arm = kernels.choose(arms, memory, settings, uniforms[t])
        total += worth[arm]
        kernels.record(arms, memory, settings, arm, worth[arm] + noise[arm] * normals[t], nobody)
    for j in range(len(worth) - 1):
        if (
            arms[at.COUNT, j] > 0.0
            and arms[at.TOTAL, j] * arms[at.COUNT, best] > arms[at.TOTAL, best] * arms[at.COUNT, j]
        ) or arms[at.COUNT, best] == 0.0:
            best = j
    return total, best
