"""Workers of Ray."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from pastmaster.parallel import greeting, transport
from pastmaster.parallel.cluster import Cluster, imported, refuse_open, source
from pastmaster.parallel.sockets import listening
from pastmaster.parallel.workers import ATTEMPTS, Function, LostWorkerError, first_line

HEAD_PATIENCE = 20.0  # seconds without a head; after 60 Ray ends the program
SETTINGS = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # from 2.54 on, Ray takes 127.0.0.1 for all addresses otherwise
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # or some versions warn of what a later one will do
}


class Ray(Cluster):
    """Workers of the Ray cluster this program is connected to, or else of a local one that lives as long as the call.

    Not by way of joblib: Ray's backend for it changes joblib for the whole program and fails with its first worker.
    """

    backend = "ray"

    def __init__(self, function: Function, count: int) -> None:
        content = transport.packed_function(function)
        self.ray = imported("ray", "ray")
        errors = self.ray.exceptions
        self.lost = (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError)
        self.running: list[Any] = []
        self.ours = not self.ray.is_initialized()
        try:
            if self.ours:
                self._start(count)
            self.functions = {"__name__": "__main__"}  # and so sent by value: a worker may not have them
            exec(source(), self.functions)
            self.function = self.ray.put(content)
        except BaseException:
            self.close()
            raise
        self.work = self.ray.remote(max_retries=ATTEMPTS - 1, num_cpus=1)(self.functions["work"])

    def _start(self, count: int) -> None:
        before = listening()
        with _settings(self.ray):
            self.ray.init(
                address="local", num_cpus=count, include_dashboard=False, log_to_driver=False,
                logging_level=logging.ERROR, _node_ip_address="127.0.0.1",
            )  # fmt: skip
        refuse_open(
            "ray", before, "start a cluster with RAY_AUTH_MODE=token and connect to it by ray.init(address=...)"
        )

    def members(self) -> list[str]:
        return list(self._nodes())

    def _await_head(self) -> None:
        """Ray ends this program when it has been without its head for a time: better an error before that."""
        if self.ray.util.client.ray.is_connected():  # the address is one inside the cluster then
            return
        host, _, port = self.ray.get_runtime_context().gcs_address.rpartition(":")
        deadline = time.monotonic() + HEAD_PATIENCE
        while True:
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise LostWorkerError(f"backend is 'ray', whose head is lost ({first_line(error)})") from error
                time.sleep(1.0)

    def _nodes(self) -> dict[str, str]:
        """The id of every node that runs jobs, by its address and the beginning of its id."""
        self._await_head()
        alive = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        return {f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})": node["NodeID"] for node in alive}

    def answers(self, members: list[str]) -> dict[str, Any]:
        on_node = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        ask = self.ray.remote(num_cpus=0, max_retries=0)(self.functions["identity"])
        nodes = self._nodes()
        asked = {
            ask.options(scheduling_strategy=on_node(nodes[name], soft=False)).remote(): name
            for name in members
            if name in nodes
        }
        answers: dict[str, Any] = {}
        for reference in self.ray.wait(list(asked), num_returns=len(asked), timeout=self.patience)[0]:
            try:
                answers[asked[reference]] = self.ray.get(reference)
            except Exception as error:
                answers[asked[reference]] = error
        return answers

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        self.running.append(self.work.remote(greeting.identity(), self.function, transport.packed(items)))
        done: Future[Any] = self.running[-1].future()
        return done

    def close(self) -> None:
        for task in self.running:
            with suppress(Exception):
                self.ray.cancel(task, force=True)
        if self.ours:
            with suppress(Exception):  # whatever is wrong was said
                self.ray.shutdown()


@contextmanager
def _settings(ray: Any) -> Iterator[None]:
    """Ray's settings for a local cluster, here and in the processes that are started within.

    Ray has read the one for loopback when it was imported, and has kept it. If a version of Ray keeps it elsewhere, the
    cluster is refused, since its addresses are looked at.
    """
    constants = ray._private.ray_constants
    kept, before = constants.ENABLE_RAY_CLUSTER, {name: os.environ.get(name) for name in SETTINGS}
    constants.ENABLE_RAY_CLUSTER = False
    os.environ.update(SETTINGS)
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = kept
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
