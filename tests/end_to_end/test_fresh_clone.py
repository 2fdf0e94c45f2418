"""What a stranger does first: clone, `make demo`, again; or install the package and run the demo anywhere."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from septuagint.data.demo.install import install_demo
from tests.conftest import need_tool

ROOT = Path(__file__).parents[2]


def run(*command: object, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "MAKEFLAGS")}
    arguments = [str(argument) for argument in command]
    result = subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def shorten(config: Path) -> None:
    """Makes the demo so small that it is trained in a moment; `test_demo` has the real one."""
    small = {"width": 32, "num_heads": 2, "feedforward_width": 64, "max_steps": 2, "warmup_steps": 1}
    text = config.read_text(encoding="utf-8")
    for name, value in small.items():
        text, num_found = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
        assert num_found == 1
    config.write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_make_demo_works_in_a_fresh_clone_in_a_path_with_a_space_and_does_nothing_twice(tmp_path):
    clone = tmp_path / "a path with spaces"
    run(need_tool("git"), "clone", "--quiet", ROOT, clone, cwd=tmp_path)
    shorten(clone / "configs/demo.toml")
    run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-am", "Shorten", cwd=clone)
    run(need_tool("make"), "demo", cwd=clone)
    files = [clone / name for name in (".venv/ready", "data/demo/manifest.json", "runs/demo/events/rank-0.jsonl")]
    before = [path.stat().st_mtime_ns for path in files]
    assert "(nothing was left to do)" in run("make", "demo", cwd=clone)
    assert [path.stat().st_mtime_ns for path in files] == before
    assert run("git", "status", "--porcelain", cwd=clone) == ""


def test_the_demo_runs_anywhere_and_leaves_its_configuration_as_it_is(tmp_path):
    config = install_demo(tmp_path)
    shorten(config)
    mine = config.read_bytes()
    first = run(sys.executable, "-m", "septuagint.cli", "demo", "--quiet", cwd=tmp_path)
    assert "trained on 30,000 pairs for 2 steps" in first
    for name in ("test.en", "test.de", "manifest.json"):
        assert (tmp_path / "data/demo" / name).is_file()
    assert config.read_bytes() == mine
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
