"""Figures for Prometheus, in a registry of their own."""

from __future__ import annotations

from typing import Any

import prometheus_client as prometheus

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters of requests, episodes and transactions."""

    def __init__(self) -> None:
        self._registry = prometheus.CollectorRegistry()
        own: dict[str, Any] = {"registry": self._registry, "namespace": "pastmaster"}
        self._requests = prometheus.Counter("requests", "Requests answered.", ["method", "status"], **own)
        self._seconds = prometheus.Histogram("request_seconds", "Seconds to an answer.", buckets=SECONDS, **own)
        self._commits = prometheus.Histogram("commit_seconds", "Seconds of a transaction.", buckets=SECONDS, **own)
        self._operations = prometheus.Counter("operations", "Operations in transactions.", **own)
        self._expired = prometheus.Gauge("expired_episodes", "Episodes whose lease ended, since the start.", **own)

    def request(self, method: str, status: int, seconds: float) -> None:
        """Count an answer; the label of a method that nobody has is the same for all."""
        known = method if method in ("GET", "HEAD", "POST", "DELETE") else "other"
        self._requests.labels(known, str(status)).inc()
        self._seconds.observe(seconds)

    def commit(self, operations: int, seconds: float) -> None:
        """Count a transaction."""
        self._operations.inc(operations)
        self._commits.observe(seconds)

    def text(self, expired: int) -> bytes:
        """All of it as Prometheus reads it."""
        self._expired.set(expired)
        return prometheus.generate_latest(self._registry)
