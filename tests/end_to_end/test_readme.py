"""The commands of the README, as they stand, one after the other in one folder.

Not as they stand: `. .venv/bin/activate`, which a test has done already; TensorBoard, which does not end; and the
configuration, which is for hours on a GPU and has corpora from the web: SMALLER and LOCAL say what it becomes.
`make demo` and `make test` are typed by `test_fresh_clone` and by whoever runs this; the command for several machines
is one of docs/clusters.md, whose commands `test_clusters_doc` runs.
"""

import gzip
import lzma
import re
from pathlib import Path

import pytest

from tests.end_to_end.test_guides import ROOT, Reader, attempts, num_lines
from tests.guides import write_project

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|toml)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
SMALLER = {
    'preset = "base"': 'preset = "base"\nwidth = 32\nnum_heads = 2\nfeedforward_width = 64\n'
    "num_encoder_layers = 1\nnum_decoder_layers = 1",
    "max_steps = 50000": "max_steps = 20\nwarmup_steps = 5",
    "tokens_per_step = 32768": "tokens_per_step = 512",
    "microbatch_tokens = 8192": "microbatch_tokens = 256",
    "validate_every = 2000": "validate_every = 10",
    "checkpoint_every = 1000": "checkpoint_every = 10",
    "[model]": "[vocabulary]\nsize = 400\n[model]",
}
LOCAL = {
    'mtdata = "Statmt-news_commentary-18.1-deu-eng"': 'source = "commentary.en"\ntarget = "commentary.de"',
    'sacrebleu = "wmt13"': 'source = "valid.en"\ntarget = "valid.de"',
    'sacrebleu = "wmt14/full"': 'source = "test.en"\ntarget = "test.de"',
}
LONGER = {"training.max_steps=100000": "training.max_steps=30"}


def replaced(text: str, others: dict[str, str]) -> str:
    for one, other in others.items():
        assert text.count(one) == 1, f"{one} stands {text.count(one)} times in\n{text}"
        text = text.replace(one, other)
    return text


@pytest.mark.slow
def test_every_command_of_the_readme_works(tmp_path: Path) -> None:
    write_project(tmp_path)
    for side in ("en", "de"):
        lines = (tmp_path / f"train.{side}").read_bytes().splitlines(keepends=True)
        (tmp_path / f"europarl.{side}.xz").write_bytes(lzma.compress(b"".join(lines[:300])))
        (tmp_path / f"commentary.{side}").write_bytes(b"".join(lines[300:]))
    (tmp_path / "memory.tsv.gz").write_bytes(gzip.compress(b"Good morning.\tGuten Morgen.\n" * 3))
    (tmp_path / "input.txt").write_bytes((tmp_path / "test.en").read_bytes())
    config = "".join(content for language, content in BLOCKS if language == "toml")
    (tmp_path / "news.toml").write_text(replaced(config, SMALLER | LOCAL), encoding="utf-8")
    reader = Reader(tmp_path)
    num_blocks = 0
    for commands in (content for language, content in BLOCKS if language == "sh"):
        if commands.startswith("mpirun "):
            continue
        commands = commands.replace(". .venv/bin/activate\n", "").replace("tensorboard --logdir runs\n", "")
        found = {one: other for one, other in LONGER.items() if one in commands}
        reader.run("bash", "-e", "-c", replaced(commands, found))
        num_blocks += 1
    assert num_blocks == 4
    # The run, its longer self, and two ranks that find nothing left to do.
    assert [attempt["end_step"] for attempt in attempts(tmp_path / "runs/news")][:2] == [20, 30]
    assert attempts(tmp_path / "runs/modern")[0]["outcome"] == "max_steps"
    assert num_lines(tmp_path / "output.txt") == num_lines(tmp_path / "input.txt")
    assert all((tmp_path / name).is_dir() for name in ("news-en-de", "news-hf", "news-argos"))


def test_the_command_for_several_machines_is_that_of_the_reference() -> None:
    (command,) = (content for language, content in BLOCKS if content.startswith("mpirun "))
    assert f"```sh on alpha\n{command}```" in (ROOT / "docs/clusters.md").read_text(encoding="utf-8")


def test_every_block_of_the_readme_is_run_or_shown() -> None:
    """The others are the two commands to begin with, what the demo says, and the tree of files."""
    assert README.count("\n```") == 2 * (len(BLOCKS) + 3)
