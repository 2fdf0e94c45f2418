"""How full packs are, and how fast they are planned and built, on the text of a data folder.

    python benchmarks/packing.py CONFIG [--budgets 4096 16384]

Whole blocks of the stream of pairs are packed as training would, the last pack of each block counted with its gap.
"""

import argparse
import itertools
import time
from pathlib import Path

from arguments import add_settings, at_least_one, mistakes_told

from septuagint.batch import Cursor
from septuagint.config_file import load_config
from septuagint.data.dataset import Dataset, open_dataset
from septuagint.data.loader import Loader, plan_blocks
from septuagint.data.packing import PackShape, pack_shape
from septuagint.progress import ProgressReport


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    add_settings(parser)
    parser.add_argument("--budgets", type=at_least_one, nargs="+", default=[4096, 8192, 16_384, 32_768])
    parser.add_argument("--blocks", type=at_least_one, default=2)
    arguments = parser.parse_args()
    dataset = open_dataset(load_config(arguments.config, arguments.overrides).data, ProgressReport(is_quiet=True))
    print("budget (source, target)  packs   fill source  fill target  planned pairs/s  loaded target tok/s")
    for budget in arguments.budgets:
        shape = pack_shape(budget, dataset.totals())
        num_packs, source, target, pairs_per_second = plan(dataset, shape, arguments.blocks)
        print(
            f"{shape.source_tokens:>8,} {shape.target_tokens:>8,} {num_packs:>12,} {source:>12.2%} {target:>12.2%} "
            f"{pairs_per_second:>16,.0f} {load(dataset, shape):>20,.0f}"
        )


def plan(dataset: Dataset, shape: PackShape, num_blocks: int) -> tuple[int, float, float, float]:
    """(packs, share of the source budget filled, of the target budget, pairs planned per second)."""
    start = time.perf_counter()
    packs = plan_blocks(dataset.train, dataset.order(1), shape, 0)
    planned = list(itertools.takewhile(lambda pack: pack.place.block < num_blocks, packs))
    seconds = time.perf_counter() - start
    num_source = num_target = num_pairs = 0
    for pack in planned:
        source_lengths, target_lengths = dataset.train.lengths(pack.corpora, pack.pairs)
        num_source, num_target = num_source + int(source_lengths.sum()), num_target + int(target_lengths.sum())
        num_pairs += len(pack.pairs)
    room = len(planned)
    source, target = num_source / (room * shape.source_tokens), num_target / (room * shape.target_tokens)
    return room, source, target, num_pairs / seconds


def load(dataset: Dataset, shape: PackShape, num_steps: int = 100) -> float:
    """Target tokens per second out of the loader, planning and copying included."""
    with Loader(dataset.train, dataset.order(1), shape, num_microbatches=1, start=Cursor()) as loader:
        next(loader)
        start = time.perf_counter()
        num_tokens = sum(next(loader).microbatches[0].num_target_tokens for _ in range(num_steps))
        return num_tokens / (time.perf_counter() - start)


if __name__ == "__main__":
    with mistakes_told():
        main()
