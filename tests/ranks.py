"""Small worlds for tests: a function is called by every rank of a world of real processes on this machine."""

import datetime
import multiprocessing
import os
import socket
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from septuagint.errors import LostPeerError
from septuagint.training.launcher import Place
from septuagint.training.rendezvous import join_world
from septuagint.training.watch import Watch

# Children of a process that has torch already start at once.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["septuagint.training.train", "tests.ranks", "tests.training.conftest"])


def in_ranks(
    size: int, function: Callable[..., Any], *arguments: Any, timeout_seconds: float = 60, lost: int = -1
) -> list[Any]:
    """What `function(world, watch, *arguments)` returned on each rank, or the text of the error that ended it.

    None for a rank that was killed, and for the one that is known to be `lost`, which nobody waits for.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pipes = [_PROCESSES.Pipe(duplex=False) for _ in range(size)]
    ranks = [
        _PROCESSES.Process(target=_call, args=(pipe, rank, size, port, timeout_seconds, function, arguments))
        for rank, (_, pipe) in enumerate(pipes)
    ]
    deadline = time.monotonic() + 2 * timeout_seconds + 30
    for rank in ranks:
        rank.start()
    try:
        results = []
        for rank, (reader, _) in zip(ranks, pipes, strict=True):
            is_awaited = rank is not (ranks[lost] if lost >= 0 else None)
            while is_awaited and not reader.poll(0.1) and rank.is_alive():
                assert time.monotonic() < deadline, "a rank does not come to an end"
            results.append(reader.recv() if is_awaited and reader.poll() else None)
        return results
    finally:
        for rank in ranks:
            rank.kill()
            rank.join()


def _call(
    pipe: Connection,
    rank: int,
    size: int,
    port: int,
    timeout_seconds: float,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    place = Place(
        launcher="environment", rank=rank, size=size, addresses=("127.0.0.1",), port=port, is_keeper=rank == 0
    )
    try:
        with (
            join_world(place, timeout=datetime.timedelta(seconds=timeout_seconds)) as (world, meeting),
            Watch(world, meeting, timeout_seconds) as watch,
            watch.guarding(),
        ):
            result = function(world, watch, *arguments)
            world.gather(None)
    except LostPeerError as error:
        result = f"LostPeerError {error.exit_code}: {error}"
    except Exception as error:
        result = f"{type(error).__name__}: {error}" if str(error) else traceback.format_exc()
    pipe.send(result)
    pipe.close()
    os._exit(0)
