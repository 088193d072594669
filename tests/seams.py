"""What tests use of the library beside its public names: all of it stands here, so that a change inside is one line.

A test file that needs an internal of another room, or one that several files need, takes it from here. A kernel beside
its plain reference, or the one test of one module, may import that module.
"""

# --- foundations ---


# --- policies and tasks ---


# --- tables and clusters ---


# --- estimation and reuse ---

from pastmaster.estimation.intervals import joint_distances as joint_distances
from pastmaster.estimation.jax_rollouts import Runs as Runs, is_program as is_program, play_runs as play_runs
from pastmaster.estimation.returns import Returns as Returns
from pastmaster.reuse import (
    _episode_kernels as episodes,  # noqa: F401
    _layout as layout,  # noqa: F401
    _selector_kernels as selecting,  # noqa: F401
    selector as selector_module,  # noqa: F401
)
from pastmaster.reuse.episodes import PlainEpisodes as PlainEpisodes, Trial as Trial
from pastmaster.reuse.informed import LIKENESS as LIKENESS
from pastmaster.reuse.problem import Problem as Problem, endless_states as endless_states
from pastmaster.reuse.protocols import adapted as adapted
from pastmaster.reuse.selector import Selector as Selector
from pastmaster.reuse.snapshots import Snapshots as Snapshots
from pastmaster.reuse.sources import source_arrays as source_arrays
from pastmaster.reuse.trial import wider as wider
from pastmaster.tasks.simulated import simulated as simulated


# --- repository ---


# --- service ---
