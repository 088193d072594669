"""Measured against peers: ``python -m benchmarks``, or ``make bench``."""
