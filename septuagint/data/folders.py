"""Folders that are filled aside and then take their name: whole, or not there at all."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from septuagint.data.files import fsync_folder


def temporary_name(path: Path) -> Path:
    """A name beside `path` for what is not there yet, or no longer."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def is_temporary(path: Path) -> bool:
    """Whether a name was given by `temporary_name` or `written_aside`."""
    return re.fullmatch(r"\..+\.\d+\.tmp", path.name) is not None


@contextlib.contextmanager
def scratch(path: Path) -> Iterator[Path]:
    """A folder beside `path` for the time of the block, under a name that nothing else has."""
    temporary = temporary_name(path.with_name(f"{path.name}.scratch"))
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def filled_aside(path: Path) -> Iterator[Path]:
    """A temporary folder that takes the name `path` when the block ends well, and is removed when it does not."""
    temporary = temporary_name(path)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        fsync_folder(temporary)
        _put_in_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def bring_back(path: Path) -> None:
    """A folder that was set aside for a new one, where a kill came between: the old one gets its name again."""
    aside = _aside(path)
    if aside.exists() and not path.exists():
        aside.rename(path)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _put_in_place(temporary: Path, path: Path) -> None:
    """A folder cannot take another's name in one step: the other is set aside first, where it is still found."""
    aside = _aside(path)
    if path.exists():
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
    try:
        temporary.rename(path)
    except OSError:
        if aside.exists():
            aside.rename(path)
        raise
    fsync_folder(path.parent)
    shutil.rmtree(aside, ignore_errors=True)


def discard(path: Path) -> None:
    """Removes a folder; killed meanwhile, it leaves no half of one under the real name."""
    trash = temporary_name(path)
    shutil.rmtree(trash, ignore_errors=True)
    path.rename(trash)
    shutil.rmtree(trash)
