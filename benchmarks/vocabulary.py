"""How well words with counts teach a vocabulary, against sentences: pieces of held-out text, seconds and memory.

    python benchmarks/vocabulary.py FILE [FILE ...] [--size 32768] [--lines 100000] [--rounds 3]

The first lines of each file, plain or compressed, as they are; every twentieth of them is held out. Ways of learning,
each in a process of its own, by turns:

    sentences      SentencePiece on the sentences, as most people train it
    words          SentencePiece on words and how often each occurs
    words, seeds   the same, with seeds that are counted beforehand: what `septuagint prepare` does

Seconds are of counting words, finding seeds and training, medians of the rounds; MB is by how much the process grew
meanwhile, at most.
"""

import argparse
import multiprocessing
import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from arguments import at_least_one, mistakes_told

from septuagint.config import VocabularyConfig
from septuagint.data.vocabulary import Vocabulary, _rows, _train, train_vocabulary
from septuagint.inference.text_stream import read_lines

HELD_OUT = 20  # every so many lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--size", type=at_least_one, default=32_768)
    parser.add_argument("--lines", type=at_least_one, default=100_000, help="of each file")
    parser.add_argument("--rounds", type=at_least_one, default=3)
    arguments = parser.parse_args()
    with mistakes_told():
        lines = [line for path in arguments.files for line in read_lines(path).lines[: arguments.lines]]
    learned, held_out = [line for i, line in enumerate(lines) if i % HELD_OUT], lines[::HELD_OUT]
    settings = VocabularyConfig(size=arguments.size)
    rounds = [
        {name: measure(way, learned, held_out, settings) for name, way in WAYS.items()} for _ in range(arguments.rounds)
    ]
    num_words = sum(len(line.split(" ")) for line in held_out)
    print(f"{len(learned):,} lines to learn from, {len(held_out):,} held out")
    print(f"{'':12} {'pieces':>10} {'a word':>7} {'seconds':>8} {'MB':>6}")
    for name in WAYS:
        seconds, num_bytes, num_pieces = zip(*(found[name] for found in rounds), strict=True)
        print(
            f"{name:12} {num_pieces[0]:10,} {num_pieces[0] / num_words:7.3f} {statistics.median(seconds):8.1f} "
            f"{statistics.median(num_bytes) / 1e6:6.0f}"
        )


def learn_from_sentences(lines: list[str], settings: VocabularyConfig) -> bytes:
    return _train(iter(lines), settings, settings.size)


def learn_from_words(lines: list[str], settings: VocabularyConfig) -> bytes:
    return _train(_rows(count_words(lines).items()), settings, settings.size, input_format="tsv")


def learn_from_words_and_seeds(lines: list[str], settings: VocabularyConfig) -> bytes:
    return train_vocabulary(count_words(lines), settings).model


def count_words(lines: list[str]) -> Counter[str]:
    """As `prepare` does."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split(" "))
    del counts[""]
    return counts


WAYS = {"sentences": learn_from_sentences, "words": learn_from_words, "words, seeds": learn_from_words_and_seeds}


def measure(
    learn: Callable[[list[str], VocabularyConfig], bytes],
    lines: list[str],
    held_out: list[str],
    settings: VocabularyConfig,
) -> tuple[float, int, int]:
    """(seconds, bytes, pieces of the text that is held out), in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (learn, lines, held_out, settings))


def _measure(
    learn: Callable[[list[str], VocabularyConfig], bytes],
    lines: list[str],
    held_out: list[str],
    settings: VocabularyConfig,
) -> tuple[float, int, int]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    model = learn(lines, settings)
    seconds = time.perf_counter() - begun
    num_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    ids, _ = Vocabulary(model).encode(held_out)
    return seconds, num_bytes, len(ids) - len(held_out)


if __name__ == "__main__":
    main()
