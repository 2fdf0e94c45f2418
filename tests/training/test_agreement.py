"""Ranks fail together, and the odd one out is named."""

from pathlib import Path

import pytest
import torch

from septuagint.config import TrainingConfig
from septuagint.config_file import load_config
from septuagint.data.packing import PackShape
from septuagint.errors import DataError, UserError
from septuagint.training.agreement import check_enough_work, check_same, leaders_first, terms, together
from septuagint.training.watch import Watch
from septuagint.world import World
from tests.ranks import in_ranks

CPU = torch.device("cpu")


def fail_on(world: World, watch: Watch, ranks: tuple[int, ...]) -> str:
    def action() -> str:
        if world.rank in ranks:
            raise DataError("the file is gone; put it back")
        return "done"

    try:
        return together(world, action)
    except UserError as error:
        return f"{error.is_told} {error}"


def test_an_error_of_one_rank_is_the_error_of_all_and_is_told_once_a_host():
    found = in_ranks(2, fail_on, (1,))
    assert [text.partition(" ")[0] for text in found] == ["True", "False"]
    for text in found:
        assert "rank 1 on" in text and "the file is gone; put it back" in text and "rank 0" not in text


def test_an_error_of_all_ranks_is_told_without_names():
    assert in_ranks(2, fail_on, (0, 1)) == [f"{told} the file is gone; put it back" for told in (True, False)]


def test_without_an_error_every_rank_has_its_result():
    assert in_ranks(2, fail_on, ()) == ["done", "done"]


def test_alone_an_error_stays_what_it_is():
    def fail() -> None:
        raise DataError("gone")

    with pytest.raises(DataError, match="gone"):
        together(World(), fail)


def in_turn(world: World, watch: Watch, folder: Path) -> list[str]:
    def look() -> list[str]:
        seen = sorted(path.name for path in folder.iterdir())
        (folder / str(world.rank)).touch()
        return seen

    return leaders_first(world, look, watch.wait_for_all)


def test_the_others_of_a_host_come_after_its_leader(tmp_path):
    first, second = in_ranks(2, in_turn, tmp_path)
    assert first == [] and "0" in second


def compare(world: World, watch: Watch, seeds: list[int]) -> str:
    try:
        check_same(world, {"training.seed": seeds[world.rank], "model.width": 512})
    except UserError as error:
        return str(error)
    return "same"


def test_the_odd_one_out_is_named_with_both_values():
    for text in in_ranks(3, compare, [1, 1, 2]):
        assert "rank 2 on" in text and "training.seed is 2, on the others 1" in text
        assert "rank 0" not in text and "width" not in text
    assert in_ranks(2, compare, [5, 5]) == ["same", "same"]


@pytest.mark.parametrize(
    ("longest", "cure"),
    [(100, "set training.tokens_per_step = 5120, or training.microbatch_tokens = 512"), (600, "= 5120")],
)
def test_more_ranks_than_microbatches_are_refused_with_numbers_that_work(longest, cure):
    settings = TrainingConfig(max_steps=1, tokens_per_step=4096, microbatch_tokens=1024)
    shape = PackShape(source_tokens=1024, target_tokens=1024, max_pairs=10, max_length=longest)
    check_enough_work(World(size=4, hosts=("a",) * 4), settings, shape)
    with pytest.raises(UserError, match=r"5 ranks.* 4 microbatches.*at most 4 ranks") as caught:
        check_enough_work(World(size=5, hosts=("a",) * 5), settings, shape)
    assert str(caught.value).endswith(cure)


def test_terms_hold_what_decides_an_update_and_no_paths(prepared):
    found = terms(load_config(prepared / "config.toml", ["training.mirror=elsewhere"]), CPU, 2)
    assert found["training.seed"] == 1 and found["model.width"] == 32
    assert found["data.train.train.weight"] == 1.0
    assert {"version of torch", "version of septuagint", "version of Python"} <= found.keys()
    assert not {key for key, value in found.items() if isinstance(value, str) and "/" in value}
    assert not {key for key in found if "device" in key or "threads" in key}


def test_terms_hold_what_rounds_products_where_ranks_make_them_for_themselves(prepared):
    found = terms(load_config(prepared / "config.toml", ["training.optimizer=muon"]), CPU, 2)
    assert found['device (for optimizer = "muon")'] == "CPU"
    assert found['number of threads (for optimizer = "muon")'] == 2
