"""Workers of dask."""

from __future__ import annotations

import asyncio
import logging
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


class Dask(Cluster):
    """Workers of the dask client that is current, or else of a local cluster that lives as long as the call.

    Not by way of joblib: its dask backend gives results back only when all are there, batches jobs by how long they
    take, and cannot tell a lost worker from an error.
    """

    backend = "dask"

    def __init__(self, function: Function, count: int) -> None:
        content = transport.packed_function(function)
        distributed, self.dask = imported("distributed", "dask"), imported("dask", "dask")
        self.lost = (distributed.KilledWorker,)
        self.cluster: Any = None
        self.client: Any = None
        self.running: dict[Future[Any], Any] = {}
        try:
            self._connect(distributed, count)
            self.function = self._submitted(bytes, content)  # a task, not scattered data: made again if its worker dies
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

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        done: Future[Any] = Future()
        arguments = [greeting.identity(), self.function, transport.packed(items)]
        variables = {"source": source(), "name": "work", "arguments": arguments}
        task = self._submitted(eval, greeting.CALL, variables)
        self.running[done] = task

        def hand_over(task: Any) -> None:
            try:
                done.set_result(task.result())
            except Exception as error:
                done.set_exception(error)
            except BaseException as error:  # dask's own kind of cancelling: its scheduler is gone
                done.set_exception(LostWorkerError(f"backend is 'dask', which lost a chunk ({first_line(error)})"))
            self.running.pop(done)  # the cluster may forget the result

        task.add_done_callback(hand_over)
        return done

    def close(self) -> None:
        for task in list(self.running.values()):
            with suppress(Exception):
                task.release()  # and what nobody wants is not run; to cancel takes the scheduler seconds
        if self.cluster is not None:
            for one in (self.client, self.cluster):
                with suppress(Exception):  # whatever is wrong was said
                    if one is not None:
                        one.close()
