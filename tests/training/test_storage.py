"""A disk that is full, read-only, or cleared away: training goes on as long as it can, and can go on later."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from septuagint.errors import StorageError
from septuagint.training.checkpoint import checkpoint_path, find_checkpoints, newest_valid

MEGABYTE = 1 << 20


def fill(disk: Path) -> None:
    """Takes all the space there is."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (MEGABYTE, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def test_a_disk_without_room_for_checkpoints_is_refused_at_once(tiny, small_disk):
    tiny.root = small_disk("size=1m")
    with pytest.raises(StorageError, match=r"checkpoints of 0\.4 MB need 1\.3 MB more on this disk.* --run"):
        tiny.train()
    assert not find_checkpoints(tiny.run_path("run"))


def test_a_disk_that_is_full_for_a_while_costs_nothing(tiny, undisturbed, small_disk, during_step):
    disk = tiny.root = small_disk("size=20m")
    during_step({4: lambda: fill(disk), 11: (disk / "filler").unlink})
    tiny.train()
    warnings = [event["message"] for event in tiny.events(kind="warning")]
    assert any("the checkpoint of step 6 was not written: No space left on device" in text for text in warnings)
    assert any("free some space; trying again at the next checkpoint" in text for text in warnings)
    assert (tiny.result()["weights"], tiny.result()["validations"]) == (
        undisturbed.result()["weights"],
        undisturbed.result()["validations"],
    )


def test_a_disk_that_stays_full_leaves_the_last_good_checkpoint_to_go_on_from(
    tiny, undisturbed, small_disk, during_step
):
    disk = tiny.root = small_disk("size=20m")
    saved = checkpoint_path(tiny.run_path("run"), 4)

    def fill_once_step_4_is_saved() -> None:
        deadline = time.monotonic() + 30
        while not saved.exists() and time.monotonic() < deadline:  # it is written beside the training
            time.sleep(0.005)
        fill(disk)

    during_step({5: fill_once_step_4_is_saved})
    with pytest.raises(StorageError, match=r"the checkpoint of step 12 was not written.*run the same command again"):
        tiny.train()
    found, problems = newest_valid(tiny.run_path("run"))
    assert found is not None
    assert (found.step, problems) == (4, [])
    program = tiny.command()
    assert program.exit_code == 2
    assert "Traceback" not in program.stderr
    (disk / "filler").unlink()
    tiny.train()
    assert tiny.result() == undisturbed.result()


def test_a_run_folder_that_may_only_be_read_is_told(tiny, small_disk):
    disk = tiny.root = small_disk("size=20m")
    tiny.train("training.max_steps=3")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(StorageError, match=r"Read-only file system.* choose a folder that you may write to"):
        tiny.train()


def test_a_file_where_the_run_folder_should_be_is_told(tiny):
    tiny.run_path("run").parent.mkdir()
    tiny.run_path("run").write_text("mine")
    with pytest.raises(StorageError, match="a file stands where a folder should be"):
        tiny.train()
    assert tiny.run_path("run").read_text() == "mine"


def test_a_run_whose_checkpoints_are_cleared_away_writes_new_ones(tiny, undisturbed, during_step):
    during_step({5: lambda: shutil.rmtree(tiny.run_path("run") / "checkpoints", ignore_errors=True)})
    tiny.train("training.average_checkpoints=0")
    assert tiny.result()["weights"] == undisturbed.result()["weights"]


def test_a_run_whose_whole_folder_is_cleared_away_ends_with_a_folder_to_go_on_from(tiny, undisturbed, during_step):
    during_step({5: lambda: shutil.rmtree(tiny.run_path("run"), ignore_errors=True)})
    tiny.train("training.average_checkpoints=0")
    assert tiny.result()["weights"] == undisturbed.result()["weights"]
    assert tiny.train("training.average_checkpoints=0").was_finished


def test_a_second_process_is_refused_and_told_of_the_first(tiny, during_step):
    messages = []

    def try_too() -> None:
        program = tiny.command()
        messages.append((program.exit_code, program.stdout, program.stderr))

    during_step({2: try_too})
    tiny.train("training.max_steps=3")
    ((exit_code, stdout, stderr),) = messages
    assert (exit_code, stdout) == (2, "")
    assert stderr.startswith(f"error: {tiny.run_path('run')}: another process is training in this folder (process ")
    assert stderr.count("\n") == 1
