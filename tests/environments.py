"""Fresh virtual environments, for what must work where few of our packages are installed, or others' programs are."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_OFFLINE = "connection broken by"  # what pip says where nothing can be reached, whatever the reason


class Environment:
    """An environment with these packages, in the versions of constraints.txt, and what they need."""

    def __init__(self, folder: Path, *packages: str | Path) -> None:
        """The test is skipped where nothing can be fetched."""
        self.programs = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint"]
        installed = self.run("python", *pip, ROOT / "constraints.txt", *packages, cwd=folder)
        if installed.returncode != 0 and _OFFLINE in installed.stderr:
            pytest.skip("needs a network, to install packages")
        assert installed.returncode == 0, installed.stdout + installed.stderr

    def run(
        self,
        program: str,
        *arguments: object,
        cwd: Path,
        input: str = "",
        env: Mapping[str, str] | None = None,
        launcher: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Runs one of its programs, by the `launcher` if there is one, until its end."""
        outside = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
        return subprocess.run(
            [*launcher, str(self.programs / program), *map(str, arguments)],
            cwd=cwd,
            env=outside | dict(env or {}),
            input=input,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def modules(self, *names: str, cwd: Path) -> list[str]:
        """Those of these modules that can be imported in it."""
        code = "import importlib.util, sys; print(*filter(importlib.util.find_spec, sys.argv[1:]))"
        return self.run("python", "-c", code, *names, cwd=cwd).stdout.split()
