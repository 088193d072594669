"""What tests use of the library beside its public names: all of it stands here, so that a change inside is one line.

A test file that needs an internal of another room, or one that several files need, takes it from here. A kernel beside
its plain reference, or the one test of one module, may import that module.
"""

# --- foundations ---


# --- policies and tasks ---


# --- tables and clusters ---

from pastmaster.report.payload import payload as payload
from pastmaster.report.render import nice_ticks as nice_ticks
from pastmaster.report.repository import run_curves as run_curves, run_shares as run_shares

# --- estimation and reuse ---


# --- repository ---


# --- service ---
