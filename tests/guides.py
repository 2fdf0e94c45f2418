"""The blocks of docs/guides, and what their reader has: text, or a small project.

A fenced block is one of these:

- `sh`: commands; `sh on alpha and beta`: for several machines;
- `toml`: a configuration, whose first line names the file;
- `python`: a program;
- `text`: what commands show. Directly after their block it is what they show there; elsewhere an example.
"""

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from septuagint.data.demo.corpus import write_demo_corpus

FOLDER = Path(__file__).parents[1] / "docs/guides"
GUIDES = sorted(FOLDER.glob("*.md"))

_FENCE = re.compile(
    r"^#+ (?P<section>[^\n]+)$|^```(?P<language>\w*)(?: on (?P<hosts>[\w ]+))?\n(?P<content>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)

# The configuration that guides call news.toml: small, and with four packs a step, for up to four ranks.
NEWS = """
[data]
folder = "data/news"
source_language = "en"
target_language = "de"
train = {{ source = "train.en", target = "train.de" }}
valid = {{ source = "valid.en", target = "valid.de" }}
[vocabulary]
size = 400
[model]
preset = "base"
width = 32
num_heads = 2
feedforward_width = 64
num_encoder_layers = 1
num_decoder_layers = 1
[training]
max_steps = {max_steps}
tokens_per_step = 512
microbatch_tokens = 128
learning_rate = 0.01
warmup_steps = 50
validate_every = 50
checkpoint_every = 10
log_every = 10
sample_every = 50
beam_size = 1
average_checkpoints = 0
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A fenced block, and the heading that it stands under."""

    section: str
    language: str
    hosts: tuple[str, ...]
    content: str
    follows_block: bool  # with no words in between

    @property
    def file_name(self) -> str | None:
        """Where a configuration belongs."""
        named = re.match(r"# (\S+\.toml)\n", self.content)
        return named[1] if named and self.language == "toml" else None

    @property
    def commands(self) -> list[str]:
        """Each use of `septuagint` in it, up to what the shell does with its output."""
        whole_lines = self.content.replace("\\\n", " ")
        return re.findall(r"\bseptuagint [a-z][^#|&>\n]*", whole_lines) if self.language == "sh" else []


def read_guide(path: Path) -> list[Block]:
    """All blocks, in order."""
    text = path.read_text(encoding="utf-8")
    blocks: list[Block] = []
    section, end = "", 0
    for found in _FENCE.finditer(text):
        if found["section"] is not None:
            section = found["section"]
            continue
        hosts = tuple(found["hosts"].split(" and ")) if found["hosts"] else ()
        follows = bool(blocks) and not text[end : found.start()].strip()
        blocks.append(
            Block(
                section=section,
                language=found["language"],
                hosts=hosts,
                content=found["content"],
                follows_block=follows,
            )
        )
        end = found.end()
    return blocks


def write_own_text(folder: Path) -> None:
    """Two files with some damage in them, a translation memory, and JSON lines."""
    write_demo_corpus(folder / "demo", num_train=720, num_valid=1, num_test=1)
    sides = [(folder / f"demo/train.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
    pairs = list(zip(*sides, strict=True))
    damaged = [("A line without a translation.", ""), ("Good morning!", "Good morning!"), (pairs[0][0], "Vor")]
    corpus = [*pairs[:600], *pairs[10:16], *damaged]
    for place, side in enumerate(("en", "de")):
        (folder / f"corpus.{side}").write_text("".join(f"{pair[place]}\n" for pair in corpus), encoding="utf-8")
    unit = '<tu><tuv xml:lang="EN-US"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>\n'
    units = "".join(unit.format(*map(escape, pair)) for pair in pairs[600:660])
    memory = f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>\n{units}</body></tmx>\n'
    (folder / "memory.tmx").write_text(memory, encoding="utf-8")
    with gzip.open(folder / "pairs.jsonl.gz", "wt", encoding="utf-8") as file:
        for source, target in pairs[660:]:
            file.write(json.dumps({"translation": {"en": source, "de": target}}) + "\n")


def write_project(folder: Path, *, max_steps: int = 100) -> None:
    """`news.toml` and its text, with a test set; nothing is prepared."""
    write_demo_corpus(folder, num_train=400, num_valid=16, num_test=16)
    (folder / "news.toml").write_text(NEWS.format(max_steps=max_steps), encoding="utf-8")
