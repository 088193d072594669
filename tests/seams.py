"""What tests use of the library beside its public names: all of it stands here, so that a change inside is one line.

A test file that needs an internal of another room, or one that several files need, takes it from here. A kernel beside
its plain reference, or the one test of one module, may import that module.
"""

# --- foundations ---


# --- policies and tasks ---


# --- tables and clusters ---


# --- estimation and reuse ---


# --- repository ---


# --- service ---
