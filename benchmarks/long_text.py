"""Whether `septuagint translate` keeps lines, order and memory on a long text.

    python benchmarks/long_text.py MODEL --source F [--lines 100000]

Lines of the source are drawn again and again in a random order, with empty ones in between, and piped through the
command: a tenth of them first, then all. Every line must come out at its place: it is compared with the translation
that the same line has on its own in a short text. Peak memory of both runs is shown.
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from arguments import at_least_one, mistakes_told

from septuagint.inference.text_stream import read_lines

_EMPTY_SHARE = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--lines", type=at_least_one, default=100_000)
    arguments = parser.parse_args()
    known = [line for line in dict.fromkeys(read_lines(arguments.source).lines) if line.strip()]
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        expected = dict(zip(known, translate(arguments.model, known, text)[0], strict=True)) | {"": ""}
        for number in (arguments.lines // 10, arguments.lines):
            generator = random.Random(1)
            lines = ["" if generator.random() < _EMPTY_SHARE else generator.choice(known) for _ in range(number)]
            found, seconds, peak = translate(arguments.model, lines, text)
            num_others = sum(expected[line] != result for line, result in zip(lines, found, strict=False))
            print(
                f"{number:,} lines in, {len(found):,} out, {num_others:,} not as on their own, "
                f"{number / seconds:,.0f} lines per second, peak {peak / 1e6:,.0f} MB"
            )


def translate(model: Path, lines: list[str], path: Path) -> tuple[list[str], float, int]:
    """(translations, seconds, the largest peak memory in bytes of any child so far)."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    begin = time.perf_counter()
    command = [sys.executable, "-m", "septuagint.cli", "translate", str(model), str(path), "--quiet"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:  # it has said why
        sys.exit(done.returncode)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return done.stdout.decode().split("\n")[:-1], time.perf_counter() - begin, peak


if __name__ == "__main__":
    with mistakes_told():
        main()
