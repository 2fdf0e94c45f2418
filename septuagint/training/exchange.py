"""What hosts without a common disk give each other: checkpoints at the start, and the record while the run goes on.

Every disk keeps everything: whichever host is lost, the others can go on without it. Which ranks see the same disk is
found out by looking for each other's marks.
"""

import contextlib
import json
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from septuagint.data.files import hash_file, written_aside
from septuagint.data.folders import filled_aside
from septuagint.errors import CheckpointError, UserError, writing_to
from septuagint.telemetry.events import Event, LineFile, Sink, Warn, record_path
from septuagint.training.agreement import together
from septuagint.training.checkpoint import Checkpoint, find_checkpoints, newest_valid
from septuagint.training.checkpoint_files import MANIFEST, read_manifest, verify_file
from septuagint.training.run_folder import RunFolder
from septuagint.world import CHUNK_BYTES, World


@dataclass(frozen=True, kw_only=True, slots=True)
class Disks:
    """Who writes for whom: the lowest rank that sees a disk owns it."""

    owner: tuple[int, ...]  # of the disk of each rank
    rank: int

    @property
    def is_owner(self) -> bool:
        return self.owner[self.rank] == self.rank

    @property
    def owners(self) -> list[int]:
        return sorted(set(self.owner))


def find_disks(run: Path, world: World) -> Disks:
    """Leaders leave a mark in the run folder; everyone looks whose marks are there."""
    mark = run / f".mark-of-rank-{world.rank}.{os.getpid()}.tmp"

    def leave_mark() -> None:
        with writing_to(run):
            run.mkdir(parents=True, exist_ok=True)
            mark.touch()

    together(world, lambda: leave_mark() if world.is_leader else None)
    try:
        marks = world.gather(mark.name if world.is_leader else None)
        seen = [rank for rank, name in enumerate(marks) if name is not None and (run / name).exists()]
        owners = world.gather(seen[0] if seen else None)
    finally:
        if world.is_leader:
            mark.unlink(missing_ok=True)
    if None in owners:
        name = world.name(owners.index(None))
        raise UserError(f"{name} does not see {run}, which others of its host do; give --run as an absolute path")
    return Disks(owner=tuple(owners), rank=world.rank)


def share_checkpoints(
    run: Path, disks: Disks, world: World, wait: Callable[[], None]
) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole on any disk, now on all of them, and what was passed over on this one.

    Verifying gigabytes takes some disks longer than others: `wait` is called before ranks talk of it.
    """

    def look() -> tuple[Checkpoint | None, list[str]]:
        return newest_valid(run) if disks.is_owner else (None, [])

    found, problems = together(world, look, wait)
    if len(disks.owners) > 1:
        steps = world.gather(-1 if found is None else found.step)
        source = steps.index(max(steps))
        if steps[source] >= 0 and _copy_from(source, run, found, world, disks):
            found, problems = together(world, look, wait)
    if not disks.is_owner:
        found, _ = newest_valid(run)
    wait()
    at = world.gather(None if found is None else found.step)
    if len(set(at)) > 1:
        where = ", ".join(f"{world.name(rank)}: {step}" for rank, step in enumerate(at))
        raise UserError(f"{run}: the ranks do not find the same newest checkpoint ({where}); look at their disks")
    return found, problems


def _copy_from(source: int, run: Path, found: Checkpoint | None, world: World, disks: Disks) -> bool:
    """Brings every checkpoint of one disk to those that lack it; whether any did."""
    own = {path.name: hash_file(path / MANIFEST) for path in _checkpoint_folders(run)} if disks.is_owner else {}
    offered = world.broadcast(own, source)
    newest = world.broadcast(None if found is None else found.path.name, source)
    lacks_newest = found is None or found.path.name != newest
    lacking = [
        name
        for name, manifest in offered.items()
        if disks.is_owner and (own.get(name) != manifest or (name == newest and lacks_newest))
    ]
    wanted = sorted({name for names in world.gather(lacking) for name in names}, key=lambda name: name != newest)
    for name in wanted:
        path = run / "checkpoints" / name
        if world.broadcast(world.rank == source and _is_whole(path), source):
            _copy_folder(path, source, world, is_wanted=name in lacking)
    return bool(wanted)


def _is_whole(path: Path) -> bool:
    """A damaged one was passed over, and is nothing to give away."""
    try:
        for name, entry in read_manifest(path).files.items():
            verify_file(path / name, entry)
    except CheckpointError:
        return False
    return True


def _checkpoint_folders(run: Path) -> list[Path]:
    folders = [path for _, path in find_checkpoints(run)] + [run / "checkpoints" / "averaged"]
    return [path for path in folders if (path / MANIFEST).is_file()]


def _copy_folder(path: Path, source: int, world: World, *, is_wanted: bool) -> None:
    names = world.broadcast([*read_manifest(path).files, MANIFEST] if world.rank == source else None, source)
    with contextlib.ExitStack() as stack:
        folder = None
        if is_wanted:
            stack.enter_context(writing_to(path.parent))
            folder = stack.enter_context(filled_aside(path))
        for name in names:
            _copy_file(path / name, None if folder is None else folder / name, source, world)
        if folder is not None:
            for name, entry in read_manifest(folder).files.items():
                verify_file(folder / name, entry)


def _copy_file(path: Path, target: Path | None, source: int, world: World) -> None:
    size = world.broadcast(path.stat().st_size if world.rank == source else None, source)
    original = path.open("rb") if world.rank == source else None
    copy = target.open("wb") if target is not None else None
    try:
        for _ in range(0, size, CHUNK_BYTES):
            chunk = world.broadcast_bytes(b"" if original is None else original.read(CHUNK_BYTES), source)
            if copy is not None:
                copy.write(chunk)
        if copy is not None:
            copy.flush()
            os.fsync(copy.fileno())
    finally:
        for file in (original, copy):
            if file is not None:
                file.close()


def share_attempts(run: RunFolder | None, disks: Disks, world: World) -> None:
    """Every disk knows of every attempt: the longest list counts."""
    lists = world.gather([] if run is None else run.attempts)
    longest = max(lists, key=len)
    if run is not None and len(disks.owners) > 1 and run.attempts != longest:
        run.adopt(longest, is_begun=False)


def merge_records(run: Path, disks: Disks, world: World) -> None:
    """Before an attempt: every disk gets every line of the record that any disk has."""
    if len(disks.owners) == 1:
        return
    own = {path.name: hash_file(path) for path in (run / "events").glob("*.jsonl")} if disks.is_owner else {}
    listed = [found for rank, found in enumerate(world.gather(own)) if rank in disks.owners]
    for name in sorted({name for found in listed for name in found}):
        if len({found.get(name) for found in listed}) == 1:
            continue
        path = run / "events" / name
        contents = world.gather_bytes(path.read_bytes() if name in own else b"")
        if disks.is_owner:
            with writing_to(run), written_aside(path) as file:
                file.write(_merged(contents))


def _merged(contents: list[bytes]) -> bytes:
    """All lines, each once, by their time. A torn line has none."""
    times: dict[bytes, float] = {}
    for content in contents:
        for line in content.split(b"\n"):
            try:
                times[line] = float(json.loads(line)["time"])
            except (ValueError, KeyError, TypeError):
                continue
    return b"".join(line + b"\n" for line in sorted(times, key=lambda line: times[line]))


class RecordExchange:
    """Brings new lines of every rank's record to all disks, and what people watch to the sinks of rank 0."""

    def __init__(self, run: Path, disks: Disks, world: World, sinks: Sequence[Sink], warn: Warn) -> None:
        self._run, self._disks, self._world = run, disks, world
        self._sinks, self._warn = sinks, warn
        self._waiting: deque[str] = deque()
        self._files: dict[int, LineFile] = {}

    def note(self, event: Event) -> None:
        """A sink of this rank's record. What its own disk cannot take, the others still get."""
        self._waiting.append(json.dumps(event))

    def exchange(self) -> None:
        """A collective: at the moments when all ranks meet anyway."""
        lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if self._world.size == 1:
            return
        for rank, theirs in enumerate(self._world.gather(lines)):
            if rank != self._world.rank and theirs:
                self._keep(rank, theirs)

    def close(self) -> None:
        """When the run ends."""
        for file in self._files.values():
            file.close()

    def _keep(self, rank: int, lines: list[str]) -> None:
        if self._disks.is_owner and self._disks.owner[rank] != self._world.rank:
            if rank not in self._files:
                self._files[rank] = LineFile(record_path(self._run, rank), self._warn)
            self._files[rank].append("\n".join(lines))
        if self._world.rank == 0:
            for event in map(json.loads, lines):
                if event["event"] == "warning":
                    event["message"] = f"{self._world.name(rank)}: {event['message']}"
                if event["event"] in ("warning", "machine"):
                    for sink in self._sinks:
                        sink(event)
