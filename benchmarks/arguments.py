"""What the scripts here take and refuse: numbers, places for results, and the user's mistakes before any work."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from septuagint.errors import UserError


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: must be 1 or more")
    return number


def new_file(text: str) -> Path:
    """Where a result shall stand: its folder must be there, before hours of work."""
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        problem = "is a folder" if path.is_dir() else f"there is no folder {path.absolute().parent}; make it first"
        raise argparse.ArgumentTypeError(f"{text}: {problem}")
    return path


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Values of a configuration, several behind one `--set`."""
    parser.add_argument("--set", nargs="+", action="extend", default=[], dest="overrides", metavar="KEY=VALUE")


@contextlib.contextmanager
def mistakes_told() -> Iterator[None]:
    """The user's mistakes in one line, with exit code 2."""
    try:
        yield
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
