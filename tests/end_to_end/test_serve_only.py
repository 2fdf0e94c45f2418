"""A machine that only translates: `septuagint[serve]` in a fresh environment, without torch."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from septuagint.inference.export import artifact_of_run
from septuagint.progress import ProgressReport
from tests.environments import ROOT, Environment
from tests.training import conftest
from tests.training.conftest import Tiny

prepared = conftest.prepared
tiny = conftest.tiny
one_thread = conftest.one_thread

LINES = ["one red dog", "two blue cat bird", "", "the sun, 3 trees & a house", "four tree house sun one"]
NOT_NEEDED = ("torch", "transformers", "safetensors", "tensorboard", "hatchling")


def wheel(folder: Path) -> Path:
    """The project as it is released."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True)
    (path,) = folder.glob("*.whl")
    return path


def here(*arguments: object, input: str = "") -> str:
    """What the command line says in the environment of the test."""
    command = [sys.executable, "-m", "septuagint.cli", *map(str, arguments)]
    return subprocess.run(command, input=input, capture_output=True, encoding="utf-8", check=True).stdout


@pytest.mark.slow
def test_an_artifact_translates_without_torch_as_it_does_where_it_was_made(tiny: Tiny, tmp_path: Path):
    tiny.train("training.max_steps=150", "training.validate_every=50")
    run = tiny.run_path("run")
    made = artifact_of_run(run, ProgressReport(is_quiet=True)).folder
    environment = Environment(tmp_path / "environment", f"{wheel(tmp_path)}[serve]")
    away = tmp_path / "a path with spaces"
    artifact = shutil.copytree(made, away / "my artifact")
    text = "".join(f"{line}\n" for line in LINES)

    def there(*arguments: object, input: str = "", code: int = 0) -> tuple[str, str]:
        result = environment.run("septuagint", *arguments, input=input, cwd=away)
        assert result.returncode == code, result.stderr
        return result.stdout, result.stderr

    assert environment.modules(*NOT_NEEDED, "ctranslate2", cwd=away) == ["ctranslate2"]
    assert "translate" in there("--help")[0]

    expected = here("translate", made, "--quiet", input=text)
    assert len(set(expected.splitlines())) == len(LINES)  # not the same for all
    assert there("translate", "my artifact", "--quiet", input=text) == (expected, "")
    many = ("--quiet", "--json", "--n-best", 3)
    assert there("translate", artifact, *many, input=text)[0] == here("translate", made, *many, input=text)

    source, reference = (tiny.config_path.parent / name for name in ("test.en", "test.de"))
    scoring = ("--source", source, "--reference", reference, "--json", "--quiet")
    ours, theirs = json.loads(here("evaluate", made, *scoring)), json.loads(there("evaluate", artifact, *scoring)[0])
    of_the_machine = dict.fromkeys(("model", "seconds", "target_tokens_per_second"))
    assert ours | of_the_machine == theirs | of_the_machine

    whole = shutil.copytree(run, away / "run")
    translated, notes = there("translate", whole, "--quiet", input=text)
    assert (translated, notes) == (expected, "")
    shutil.rmtree(whole / "artifact")
    translated, notes = there("translate", whole, input=text, code=2)
    assert translated == ""
    assert notes == "error: not installed: torch, safetensors; this needs: pip install 'septuagint[train]'\n"
    assert "pip install 'septuagint[train]'" in there("export", whole, "--to", "new", code=2)[1]
