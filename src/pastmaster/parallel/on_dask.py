"""Workers of dask."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from pastmaster.errors import InvalidInputError
from pastmaster.parallel import greeting, transport
from pastmaster.parallel.cluster import Cluster, imported, refuse_open, source
from pastmaster.parallel.sockets import listening
from pastmaster.parallel.workers import ATTEMPTS, Function, LostWorkerError, first_line

SETTINGS = {
    "distributed.scheduler.allowed-failures": ATTEMPTS - 1,
    "distributed.scheduler.worker-saturation": 1.0,  # a worker holds no chunk but the one it runs
}
LOOPBACK = "127.0.0.1:0"
STALLED = 20.0
"""The seconds that all workers may do nothing while chunks wait; then dask has lost the chunks, and gets them again."""


class Dask(Cluster):
    """Workers of the dask client that is current, or else of a local cluster that lives as long as the call.

    Not by way of joblib: its dask backend gives results back only when all are there, batches jobs by how long they
    take, and cannot tell a lost worker from an error.
    """

    backend = "dask"

    def __init__(self, function: Function, count: int) -> None:
        self.content = transport.packed_function(function)
        distributed, self.dask = imported("distributed", "dask"), imported("dask", "dask")
        self.lost = (distributed.KilledWorker,)
        self.cluster: Any = None
        self.client: Any = None
        self.running: dict[Future[Any], tuple[Any, bytes]] = {}
        self.lock = threading.Lock()
        self.idle_since: float | None = None
        self.stalls = 0
        try:
            self._connect(distributed, count)
            self._send_function()
        except BaseException:
            self.close()
            raise

    def _connect(self, distributed: Any, count: int) -> None:
        try:
            self.client = distributed.Client.current()
        except ValueError:
            before = listening()
            self.cluster = self._local_cluster(distributed, count)
            refuse_open("dask", before, "connect to a cluster of your own with a distributed.Client")
            self.client = distributed.Client(self.cluster, set_as_default=False)
        if self.client.asynchronous:
            raise InvalidInputError("backend is 'dask', whose client is asynchronous, must be one that is not")

    def _local_cluster(self, distributed: Any, count: int) -> Any:
        try:
            with self.dask.config.set(SETTINGS):
                return distributed.LocalCluster(
                    n_workers=count, threads_per_worker=1, processes=True, host="127.0.0.1", memory_limit=0,
                    dashboard_address=LOOPBACK, worker_dashboard_address=LOOPBACK, silence_logs=logging.CRITICAL,
                )  # fmt: skip
        except RuntimeError as error:  # each worker runs the main script once more, up to here if nothing forbids it
            raise InvalidInputError(
                "backend is 'dask', whose local workers do not start: a script must do its work "
                "under if __name__ == '__main__'"
            ) from error

    def members(self) -> list[str]:
        return list(self._asked(self.client.scheduler.ncores))

    def answers(self, members: list[str]) -> dict[str, Any]:
        variables = {"source": source(), "name": "identity", "arguments": ()}
        answers: dict[str, Any] = {}

        async def ask(worker: str) -> None:
            answers.update(await self.client.run(eval, greeting.CALL, variables, workers=[worker], on_error="return"))

        async def ask_all() -> None:
            await asyncio.wait([asyncio.create_task(ask(worker)) for worker in members], timeout=self.patience)

        self.client.sync(ask_all)
        return answers

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """What the scheduler says, which must be within a minute."""
        try:
            return self.client.sync(ask, callback_timeout=self.patience)
        except Exception as error:
            raise LostWorkerError(
                f"backend is 'dask', whose scheduler does not answer ({first_line(error)})"
            ) from error

    def _submitted(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with self.dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return self.client.submit(function, *arguments, pure=False)

    def _send_function(self) -> None:
        """As a task, not as scattered data: it is made again if its worker dies."""
        self.function = self._submitted(bytes, self.content)

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        done: Future[Any] = Future()
        self._begin(done, transport.packed(items))
        return done

    def _begin(self, done: Future[Any], items: bytes) -> None:
        """Have a chunk run; ``done`` is set when it has."""
        arguments = [greeting.identity(), self.function, items]
        task = self._submitted(eval, greeting.CALL, {"source": source(), "name": "work", "arguments": arguments})
        with self.lock:
            self.running[done] = task, items
        asyncio.run_coroutine_threadsafe(self._hand_over(task, done), self.client.loop.asyncio_loop)

    async def _hand_over(self, task: Any, done: Future[Any]) -> None:
        """Fetch a chunk's outcome. Not in dask's callbacks: one that waits there holds up all others."""
        settle: Callable[[Any], None] = done.set_exception
        try:
            outcome, settle = await task, done.set_result
        except Exception as error:
            outcome = error
        except BaseException as error:  # dask's own kind of cancelling: its scheduler is gone
            outcome = LostWorkerError(f"backend is 'dask', which lost a chunk ({first_line(error)})")
        with self.lock:
            if self.running.get(done, (None,))[0] is not task:
                return  # it was begun again
            del self.running[done]  # the cluster may forget the result
        self.idle_since, self.stalls = None, 0
        settle(outcome)

    def check(self) -> None:
        """Besides the workers, look whether any of them runs anything.

        A worker that is killed while another fetches what it held has left chunks behind, now and then, that dask
        counts as under way and nobody runs. To begin a chunk again is harmless: its results are the same.
        """
        super().check()
        if not self.running or self._is_busy():
            self.idle_since = None
            return
        now = time.monotonic()
        self.idle_since = self.idle_since or now
        if now - self.idle_since < STALLED:
            return
        self.idle_since, self.stalls = None, self.stalls + 1
        if self.stalls > ATTEMPTS:
            raise LostWorkerError(
                f"backend is 'dask', whose workers run none of the {len(self.running)} chunks that they were sent "
                f"{self.stalls} times"
            )
        self._send_function()
        with self.lock:
            left, self.running = self.running, {}
        for done, (task, items) in left.items():
            self._begin(done, items)
            task.release()

    def _is_busy(self) -> bool:
        """Whether a worker runs a task, ours or another's, or does not say."""
        try:
            return bool(self.client.sync(self.client.scheduler.call_stack, callback_timeout=self.check_every))
        except Exception:
            return True

    def close(self) -> None:
        for task, _ in list(self.running.values()):
            with suppress(Exception):
                task.release()  # and what nobody wants is not run; to cancel takes the scheduler seconds
        if self.cluster is not None:
            for one in (self.client, self.cluster):
                with suppress(Exception):  # whatever is wrong was said
                    if one is not None:
                        one.close()
