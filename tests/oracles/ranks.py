"""Real ranks for tests: processes with a gloo process group, started once and used by many tests.

    ranks = Ranks(2)
    ranks.run(work, 3)          work(3) on both ranks, the results in rank order

A function is given by a module of the tests, so that the processes can import it. What a rank
raises comes back as `RankRaised`, with its traceback as text.

Between runs the processes are stopped (SIGSTOP). Every group of gloo has a thread that wakes a
hundred times a second, and a world keeps the groups of all its runs: worlds that only wait were a
quarter of what the tests cost.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from typing import Any

THREADS = 1


class RankRaised(Exception):
    """What a rank raised, as text."""


class Ranks:
    """A world of processes on this machine. ``timeout``: of every run, in seconds. patience: of
    the process group.
    """

    def __init__(
        self, count: int, *, timeout: float = 600.0, backend: str = "gloo", patience: float = 240.0
    ) -> None:
        import torch.distributed as dist

        self.count = count
        self.timeout = timeout
        self._store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.oracles.ranks", "tests.oracles.preloaded"])
        self._pipes: list[Connection] = []
        self.processes: list[Any] = []
        for rank in range(count):
            here, there = context.Pipe()
            process = context.Process(
                target=_serve,
                args=(there, self._store.port, rank, count, backend, patience),
                daemon=True,
            )
            process.start()
            there.close()
            self._pipes.append(here)
            self.processes.append(process)
        # Python asks its daemons to end and waits for them: a stopped one would never hear it.
        Finalize(self, _kill, args=(self.processes,), exitpriority=100)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Runs a function on every rank and returns the results; raises RankRaised."""
        self._send(function, args, kwargs)
        results: dict[int, Any] = {}
        raised: dict[int, str] = {}
        while len(results) + len(raised) < self.count:
            left = [p for r, p in enumerate(self._pipes) if r not in results and r not in raised]
            ready = wait(left, timeout=self.timeout)
            if not ready:
                self.close()
                raise TimeoutError(f"no answer within {self.timeout} s; raised so far: {raised}")
            for pipe in ready:
                rank = self._pipes.index(pipe)  # type: ignore[arg-type]
                ok, value = pickle.loads(self._pipes[rank].recv_bytes())
                (results if ok else raised)[rank] = value
        if raised:
            self.close()
            rank, text = min(raised.items())
            raise RankRaised(f"rank {rank}: {text}")
        self._signal(signal.SIGSTOP)
        return [results[rank] for rank in range(self.count)]

    def answer_of(self, rank: int, function: Callable[..., Any], *args: Any) -> Any:
        """Runs a function on every rank and returns one rank's result, whatever the others do."""
        self._send(function, args, {})
        if not self._pipes[rank].poll(self.timeout):
            raise TimeoutError(f"rank {rank} did not answer within {self.timeout} s")
        ok, value = pickle.loads(self._pipes[rank].recv_bytes())
        if not ok:
            raise RankRaised(f"rank {rank}: {value}")
        return value

    def answers_without(self, lost: int, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Runs a function on every rank, and returns the results of all but one that is lost."""
        self._send(function, args, {})
        found = []
        for rank, pipe in enumerate(self._pipes):
            if rank == lost:
                continue
            if not pipe.poll(self.timeout):
                raise TimeoutError(f"rank {rank} did not answer within {self.timeout} s")
            ok, value = pickle.loads(pipe.recv_bytes())
            if not ok:
                raise RankRaised(f"rank {rank}: {value}")
            found.append(value)
        return found

    def _send(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._signal(signal.SIGCONT)
        work = pickle.dumps((function, args, kwargs))
        for pipe in self._pipes:
            pipe.send_bytes(work)

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def close(self) -> None:
        """Ends the processes."""
        _kill(self.processes)

    @property
    def alive(self) -> bool:
        """Whether all ranks still run."""
        return all(process.is_alive() for process in self.processes)


def _kill(processes: list[Any]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.join()


_worlds: dict[int, Ranks] = {}


def world(count: int) -> Ranks:
    """Returns a world of this size, the same one while it lives."""
    found = _worlds.get(count)
    if found is None or not found.alive:
        found = _worlds[count] = Ranks(count)
    return found


def _serve(
    pipe: Connection, port: int, rank: int, count: int, backend: str, patience: float
) -> None:
    import torch
    import torch.distributed as dist

    if sys.platform == "linux":
        # A stopped rank does not see that the tests have ended: it ends with the server that it is
        # forked from, and that server when nobody else holds the end of its pipe.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        end = forkserver._forkserver._forkserver_alive_fd  # type: ignore[attr-defined]  # only there
        os.close(end)
    torch.set_num_threads(THREADS)
    store = dist.TCPStore("127.0.0.1", port, None, False)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=count, timeout=timedelta(seconds=patience)
    )
    while True:
        try:
            function, args, kwargs = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        try:
            answer = (True, function(*args, **kwargs))
        except BaseException:
            answer = (False, traceback.format_exc())
        pipe.send_bytes(pickle.dumps(answer))
