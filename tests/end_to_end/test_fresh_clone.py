"""What a stranger does first: clone, `make demo`, again; or install the package and run the demo anywhere."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import need_tool

ROOT = Path(__file__).parents[2]


def run(*command: object, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "MAKEFLAGS")}
    arguments = [str(argument) for argument in command]
    result = subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_make_demo_works_in_a_fresh_clone_in_a_path_with_a_space_and_does_nothing_twice(tmp_path):
    clone = tmp_path / "a path with spaces"
    run(need_tool("git"), "clone", "--quiet", ROOT, clone, cwd=tmp_path)
    run(need_tool("make"), "demo", cwd=clone)
    ready = (clone / ".venv/ready").stat().st_mtime_ns
    manifest = (clone / "data/demo/manifest.json").read_bytes()
    again = run("make", "demo", cwd=clone)
    assert "nothing changed since it was prepared" in again
    assert (clone / ".venv/ready").stat().st_mtime_ns == ready
    assert (clone / "data/demo/manifest.json").read_bytes() == manifest
    assert run("git", "status", "--porcelain", cwd=clone) == ""


def test_the_demo_runs_anywhere_and_finds_its_work_done(tmp_path):
    first = run(sys.executable, "-m", "septuagint.cli", "demo", "--quiet", cwd=tmp_path)
    assert "30,000" in first
    for name in ("test.en", "test.de", "manifest.json"):
        assert (tmp_path / "data/demo" / name).is_file()
    again = run(sys.executable, "-m", "septuagint.cli", "demo", cwd=tmp_path)
    assert "nothing changed since it was prepared" in again
    run(sys.executable, "-m", "septuagint.cli", "prepare", "configs/demo.toml", cwd=tmp_path)


def test_the_wheel_has_the_configurations_and_asks_for_no_torch(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    run(*pip, "--no-build-isolation", "--wheel-dir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        requirements = [
            line for line in archive.read(metadata).decode().splitlines() if line.startswith("Requires-Dist")
        ]
    assert {"septuagint/data/demo/demo.toml", "septuagint/py.typed"} <= set(names)
    assert not any(name.startswith("tests") for name in names)
    assert all("extra == 'train'" in line for line in requirements if "torch" in line)
