"""The watch: every rank tells the others what it is doing, and nobody waits in silence for one that is gone.

Twice a second each rank leaves its heartbeat in the store of the meeting: a count, its step and its phase. When an
exchange fails or takes too long, those whose heartbeat stopped, or who are not where all others wait, are named; the
stacks of all threads go into the run folder, and the process leaves, so that a launcher can start it again.
"""

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch.distributed as dist

from septuagint.errors import LostPeerError, UserError
from septuagint.training.rendezvous import Meeting
from septuagint.training.signals import LOST_PEER_EXIT_CODE
from septuagint.world import World

BEAT_SECONDS = 0.5
# So long without a heartbeat, while ours goes through, and a rank is gone: it has missed four.
SILENT_SECONDS = 2.0
# The main thread of a rank that hears of a failure has this long to end by itself.
_GRACE_SECONDS = 5.0
# All ranks pass through these within moments of each other: who stays longer than the timeout waits for nothing. NCCL
# has its own idea of that, and names nobody: it is given a minute more.
_BRIEF = ("data", "forward", "backward and communication", "optimizer", "logging")
# What torch's backends say when a peer or the way to it is lost; they have no class of their own for it.
# Which of a wait's many places hits the timeout first decides how it is put.
_SIGNS = (
    *("gloo", "NCCL", "Connection closed by peer", "Connection reset", "Broken pipe", "Socket closed"),
    *("Timed out", "timed out", "Application timeout", "Connect timeout"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    """The heartbeat of a rank, as others see it."""

    count: int = 0
    step: int = 0
    phase: str = "starting"
    signal: int = 0  # that it received, and would have all stop for
    failure: str | None = None  # why it is leaving
    exit_code: int = LOST_PEER_EXIT_CODE  # with which it leaves then


class Watch:
    """Used in a `with` statement. A world of one is not watched."""

    def __init__(self, world: World, meeting: Meeting | None, timeout_seconds: float) -> None:
        self._world, self._meeting, self._timeout_seconds = world, meeting, timeout_seconds
        self._own = Beat()
        self._phase_began = time.monotonic()
        self._beats = [Beat() for _ in range(world.size)]
        self._moved = [time.monotonic()] * world.size  # when the heartbeat of each rank last moved
        self._contact = time.monotonic()  # when the store last answered
        self._is_over = threading.Event()
        self._stacks: Path | None = None
        self._barriers = self._count = 0
        self._threads = [
            threading.Thread(target=self._beat, name="heartbeat", daemon=True),
            threading.Thread(target=self._guard, name="watch", daemon=True),
        ]

    def __enter__(self) -> Self:
        if self._meeting is not None:
            self._store = self._meeting.connect()
            self._store.set(_key(self._world.rank), _as_text(self._own))
            self._world.gather(None)  # from now on every rank's heartbeat is there to be read
            for thread in self._threads:
                thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._meeting is not None:
            self._threads[1].join()  # the other may be waiting for a store that is gone

    def dump_into(self, folder: Path, attempt: int) -> None:
        """Where the stacks of this rank go, should something be lost."""
        self._stacks = folder / "stacks" / f"attempt-{attempt}-rank-{self._world.rank}.txt"

    def enter(self, phase: str, step: int | None = None) -> None:
        """What the main thread does from now on. Cheap: it only takes a note."""
        self._phase_began = time.monotonic()
        self._own = replace(self._own, phase=phase, step=self._own.step if step is None else step)

    def received(self, number: signal.Signals) -> None:
        """Tells the others of a signal, so that they break off what can be made up for."""
        self._own = replace(self._own, signal=int(number))

    @property
    def has_peer_signal(self) -> bool:
        """Whether another rank received a signal. Not the same on all ranks: only to be done sooner."""
        return any(beat.signal for beat in self._beats)

    def wait_for_all(self) -> None:
        """Until every rank is here, as long as all are alive: for work that may take ranks minutes more than others."""
        if self._meeting is None:
            return
        self._barriers += 1
        keys = [f"barrier/{self._barriers}/{rank}" for rank in range(self._world.size)]
        while not self._have_arrived(keys):
            silences = (time.monotonic() - self._contact, *self._silences())
            if self._failures() or max(silences) > self._timeout_seconds:
                self._dump_stacks()
                raise self._lost_peer()
            time.sleep(0.02)

    def _have_arrived(self, keys: list[str]) -> bool:
        try:
            self._store.set(keys[self._world.rank], "")
            return self._store.check(keys)
        except RuntimeError:  # no way to the store, for now or for good: `_contact` tells
            return False

    @contextlib.contextmanager
    def guarding(self) -> Iterator[None]:
        """Turns the failure of an exchange into a LostPeerError, and tells the others of any error that ends us."""
        try:
            yield
        except RuntimeError as error:
            if self._meeting is None or not _is_about_peers(error):
                self._say_farewell(error)
                raise
            self._dump_stacks(error)
            begin = time.monotonic()
            while time.monotonic() < begin + SILENT_SECONDS + 2 * BEAT_SECONDS and not self._knows_who():
                time.sleep(BEAT_SECONDS / 2)  # a rank that was killed a moment ago is not silent yet
            raise self._lost_peer() from error
        except LostPeerError:
            raise  # who only lost somebody else does not add to the confusion
        except Exception as error:
            self._say_farewell(error)
            raise

    def _lost_peer(self) -> LostPeerError:
        return LostPeerError(self.explain(), self._exit_code())

    def _exit_code(self) -> int:
        """A mistake of one rank is the mistake of all: starting them again would not help."""
        return min((self._beats[rank].exit_code for rank, _ in self._failures()), default=LOST_PEER_EXIT_CODE)

    def explain(self) -> str:
        """Who is missing, where, and what it was doing."""
        cure = "put that right, and start it again" if self._failures() else "start it again"
        return (
            f"{self._world.name(self._world.rank)} stopped at step {self._own.step:,} (in phase {self._own.phase}): "
            f"{self._describe_missing()}. Nothing before the last checkpoint is lost; {cure}"
        )

    def _describe_missing(self) -> str:
        if failures := self._failures():
            return "; ".join(f"{self._world.name(rank)} failed: {reason}" for rank, reason in failures)
        lost = time.monotonic() - self._contact
        if lost > SILENT_SECONDS:
            return (
                f"no word from {self._world.name(0)}, where the ranks meet, for {lost:.0f} s: that process, its host "
                "or the network between is gone"
            )
        if silent := self._silent():
            return "; ".join(self._describe(rank) for rank in silent)
        behind = [
            rank
            for rank, beat in enumerate(self._beats)
            if rank != self._world.rank and (beat.step < self._own.step or beat.phase != self._own.phase)
        ]
        if behind:
            return "; ".join(f"{self._describe(rank)} is alive, but not where the others wait" for rank in behind)
        return "every rank is alive and waits, so the network between the hosts does not carry their data"

    def _describe(self, rank: int) -> str:
        beat = self._beats[rank]
        return (
            f"{self._world.name(rank)} (last heard of {self._silences()[rank]:.1f} s ago at step {beat.step:,}, "
            f"in phase {beat.phase})"
        )

    def _silences(self) -> list[float]:
        """For how long each rank has not been heard of, up to our last contact with the store."""
        return [max(0.0, self._contact - moved) for moved in self._moved]

    def _silent(self) -> list[int]:
        return [rank for rank, seconds in enumerate(self._silences()) if seconds > SILENT_SECONDS]

    def _knows_who(self) -> bool:
        return bool(self._failures() or self._silent()) or time.monotonic() - self._contact > SILENT_SECONDS

    def _failures(self) -> list[tuple[int, str]]:
        return [
            (rank, beat.failure) for rank, beat in enumerate(self._beats) if beat.failure and rank != self._world.rank
        ]

    def _say_farewell(self, error: Exception) -> None:
        """Once: an error passes here on its way out more than once."""
        if self._meeting is None or self._own.failure is not None:
            return
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        lines = str(error).splitlines() or [""]
        self.enter("leaving")
        self._own = replace(
            self._own, failure=f"{kind}{lines[0][:300]}", exit_code=2 if isinstance(error, UserError) else 1
        )
        time.sleep(2 * BEAT_SECONDS)  # one more heartbeat carries it

    def _dump_stacks(self, error: Exception | None = None) -> None:
        """Every thread's, of this process, and where the error came from, into the run folder."""
        if self._stacks is None:
            return
        with contextlib.suppress(OSError):
            self._stacks.parent.mkdir(exist_ok=True)
            with self._stacks.open("a", encoding="utf-8") as file:
                if error is not None:
                    file.write("".join(traceback.format_exception(error)) + "\n")
                    file.flush()
                faulthandler.dump_traceback(file, all_threads=True)

    def _beat(self) -> None:
        """Publishes and reads, and tries again when the store does not answer; the other thread looks after that."""
        while not self._is_over.is_set():
            with contextlib.suppress(RuntimeError):  # no way to rank 0, for now or for good: `_contact` tells
                self._beat_until_lost()
            self._is_over.wait(BEAT_SECONDS)

    def _beat_until_lost(self) -> None:
        assert self._meeting is not None
        store = self._meeting.connect()
        keys = [_key(rank) for rank in range(self._world.size)]
        while not self._is_over.wait(BEAT_SECONDS):
            self._count += 1
            store.set(keys[self._world.rank], _as_text(replace(self._own, count=self._count)))
            for rank, text in enumerate(store.multi_get(keys)):
                beat = Beat(**json.loads(text))
                if beat.count != self._beats[rank].count:
                    self._moved[rank] = time.monotonic()
                self._beats[rank] = beat
            self._contact = time.monotonic()

    def _guard(self) -> None:
        """Ends the process where the main thread cannot: it may wait inside a library for a rank that is gone."""
        failed_since: float | None = None
        while not self._is_over.wait(BEAT_SECONDS):
            now = time.monotonic()
            if failed_since is None and self._own.failure is None and self._failures():
                failed_since = now
            seconds = now - self._phase_began
            has_lost = max(now - self._contact, *self._silences()) > self._timeout_seconds
            is_waiting = has_lost or self._own.phase in _BRIEF
            is_stuck = is_waiting and seconds > self._timeout_seconds + _GRACE_SECONDS
            if is_stuck or (failed_since is not None and now - failed_since > _GRACE_SECONDS):
                self._leave()

    def _leave(self) -> None:
        print(f"error: {self.explain()}", file=sys.stderr, flush=True)
        self._dump_stacks()
        os._exit(self._exit_code())


def _key(rank: int) -> str:
    return f"beat/{rank}"


def _as_text(beat: Beat) -> str:
    return json.dumps({name: getattr(beat, name) for name in Beat.__slots__})


def _is_about_peers(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in _SIGNS)
