"""What an attempt is made of, on one rank."""

from dataclasses import dataclass
from pathlib import Path

from septuagint.config import Config
from septuagint.data.dataset import Dataset
from septuagint.data.packing import PackShape
from septuagint.training.exchange import Disks
from septuagint.training.run_folder import RunFolder
from septuagint.training.watch import Watch
from septuagint.world import World


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Made by `train`, which opens and closes all of it."""

    config: Config
    world: World
    watch: Watch
    disks: Disks
    dataset: Dataset
    shape: PackShape
    run_path: Path
    run: RunFolder | None  # on the ranks that write for their disk
    num_threads: int
    is_quiet: bool
