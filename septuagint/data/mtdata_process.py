"""mtdata in a process of its own: importing it sets up logging for a whole program, and runs what the folder holds.

The process (`mtdata_reader`) loads mtdata's index, which takes seconds, and then answers any number of questions: each
is a line of JSON, and so is its answer.
"""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from septuagint.errors import DataError

_NUM_LAST_LINES = 5
_PATIENCE_SECONDS = 10


class Mtdata:
    """Started by the first question."""

    def __init__(self, cache: Path) -> None:
        # Absolute paths: mtdata runs in another folder than we do.
        self._cache = cache.absolute()
        self.recipes = Path(os.environ.get("MTDATA_RECIPES") or self._cache / "mtdata" / "recipes").absolute()
        self._opened = contextlib.ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self._log = Path()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened.close()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer; a DataError where mtdata does not know it, or cannot read what it was given."""
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_SECONDS)  # until its last words are written
            raise DataError(f"mtdata could not read {question['name']}:\n{self._last_lines()}")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise DataError(found["error"])
        return found

    def _start(self) -> subprocess.Popen[str]:
        self._cache.mkdir(parents=True, exist_ok=True)
        folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory(dir=self._cache)))
        self._log = folder / "log.txt"
        package, inherited = str(Path(__file__).absolute().parents[2]), os.environ.get("PYTHONPATH", "")
        environment = {
            **os.environ,
            "MTDATA": str(self._cache / "mtdata"),
            "MTDATA_RECIPES": str(self.recipes),
            "PYTHONPATH": os.pathsep.join(filter(None, [package, inherited])),
        }
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "septuagint.data.mtdata_reader"],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
            )
        self._opened.callback(_end, process)
        return process

    def _last_lines(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_NUM_LAST_LINES:])


def check_mtdata(setting: str) -> None:
    """Where it is not installed, a DataError says how to get it."""
    if importlib.util.find_spec("mtdata") is None:
        raise DataError(f"{setting} needs mtdata: pip install 'septuagint[corpora]'")


def _end(process: subprocess.Popen[str]) -> None:
    """It is given the time to remove a file that is half written."""
    process.terminate()
    try:
        process.communicate(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
