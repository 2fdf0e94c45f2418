"""How long BLEU and chrF of a text take: counted by sacreBLEU itself, and by `septuagint.inference.scoring`.

    python benchmarks/scoring.py TRANSLATIONS REFERENCES [--language de] [--rounds 5]

As in training: the references stay, the translations are others every time (a number stands at their ends). Both take
turns, so that what else happens hits both; seconds are medians of the rounds after a first one, and so is the ratio of
the two. Their counts must be the same.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

from arguments import at_least_one, mistakes_told
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from septuagint.inference.evaluation import read_parallel
from septuagint.inference.scoring import bleu_tokenizer, count_matches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("translations", type=Path)
    parser.add_argument("references", type=Path)
    parser.add_argument("--language", default="de")
    parser.add_argument("--rounds", type=at_least_one, default=5)
    arguments = parser.parse_args()
    text = read_parallel(arguments.translations, arguments.references)
    lines, references = text.sources, text.references
    times = [measure(number, lines, references, arguments.language) for number in range(arguments.rounds + 1)][1:]
    print(f"{len(lines):,} lines, {sum(map(len, lines)):,} characters")
    for name, seconds in zip(("sacreBLEU", "ours"), zip(*times, strict=True), strict=True):
        print(f"{name:9} {statistics.median(seconds):.2f} s")
    ratios = [theirs / ours for theirs, ours in times]
    print(f"sacreBLEU takes {statistics.median(ratios):.2f} times as long ({min(ratios):.2f} to {max(ratios):.2f})")


def measure(number: int, lines: list[str], references: list[str], language: str) -> tuple[float, float]:
    """Seconds of sacreBLEU, and ours, for the translations of one round."""
    lines = [f"{line} {number}" for line in lines]
    began = time.perf_counter()
    theirs = [
        [sum(column) for column in zip(*metric._extract_corpus_statistics(lines, [references]), strict=True)]
        for metric in (BLEU(tokenize=bleu_tokenizer(language)), CHRF())
    ]
    between = time.perf_counter()
    ours = count_matches(lines, references, language)
    ended = time.perf_counter()
    if theirs != [ours.bleu, ours.chrf]:
        sys.exit(f"round {number}: not the same counts: {theirs} and {[ours.bleu, ours.chrf]}")
    return between - began, ended - between


if __name__ == "__main__":
    with mistakes_told():
        main()
