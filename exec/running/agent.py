"""The agent of a run: it starts the ranks, holds their store, and tells how they ended.

    python -m dimsolve.exec.running.agent FOLDER LAUNCHER COUNT     started by `launch`
    exits.json: [[1, -9], [0, 1]]                                   rank 1 was killed, then 0 failed

Importing torch and SymPy takes seconds of every core, so it is done once: the agent imports what a
rank needs and forks the ranks, before it has a thread of its own; elsewhere than on Linux, where
forking is not safe, every rank is started by itself. Ranks find each other at the agent's store, as
those of ``torchrun`` do. The first that fails ends the others, by SIGTERM, as LAUNCHER's end does;
one that does not end is killed by the launcher's `Supervisor`.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, TypeAlias

Exits: TypeAlias = list[tuple[int, int]]
"""Rank and exit code of those that failed, the first one first; a signal's number is negative."""

EXITS = "exits.json"
"""Where the agent writes them."""

INTERVAL = 0.05
"""Seconds between two looks at the ranks."""


def environment(rank: int, count: int, port: int) -> dict[str, str]:
    """Returns what ``torchrun`` would tell a rank of one machine, whose agent holds the store."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }


def main(folder: Path, launcher: int, count: int) -> None:
    """Starts the ranks and waits for their end."""
    asked = _heeding()
    from . import worker  # noqa: F401  # imported once, before the ranks are forked

    forks = sys.platform == "linux"
    context: Any = multiprocessing.get_context("fork" if forks else "spawn")
    with socket.create_server(("127.0.0.1", 0), backlog=count) as server:
        port = server.getsockname()[1]
        gc.freeze()  # what is here is not looked through again by every rank
        ranks = {
            rank: context.Process(target=_rank, args=(folder, rank, count, port))
            for rank in range(count)
        }
        for process in ranks.values():
            process.start()
        store = _store(server, count)
    exits: Exits = []
    while ranks:
        for rank, process in list(ranks.items()):
            code = process.exitcode
            if code is not None:
                del ranks[rank]
            if code:
                exits.append((rank, code))
                (folder / EXITS).write_text(json.dumps(exits))
                asked.append(signal.SIGTERM)
        if asked or os.getppid() != launcher:
            asked.clear()
            for process in ranks.values():
                process.terminate()
        time.sleep(INTERVAL)
    del store


def _rank(folder: Path, rank: int, count: int, port: int) -> None:
    """What a rank's process does."""
    from . import worker

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(environment(rank, count, port))
    worker.end(worker.main(folder, os.getppid()))


def _store(server: socket.socket, count: int) -> Any:
    """The store at which the ranks find each other, behind the socket that they connect to."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch re-exports it without saying so

    port, listening = server.getsockname()[1], server.detach()
    return TCPStore(
        "127.0.0.1", port, count, True, wait_for_workers=False, master_listen_fd=listening
    )


def _heeding() -> list[int]:
    """Returns where SIGTERM is noted. Ctrl-C goes to all processes of a terminal: what follows from
    it, the launcher decides.
    """
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    return asked


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
