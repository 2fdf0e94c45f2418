"""TensorBoard shows what the record says, draws no step twice after a resume, and is never needed."""

import errno
import html
import math
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.tensorflow_stub.io import gfile

from septuagint.telemetry.tensorboard import TensorBoardMirror, sample_text, scalars
from tests.telemetry.test_wording import TRAIN

HOSTILE = "[red](x) **b** `c` <script>alert(1)</script> \x1b[2J # 1. a_b_c \\* &amp; | ~~d~~ \ud800"


def refuse_warning(message: str) -> None:
    raise AssertionError(message)


def validation(step: int) -> dict[str, Any]:
    return {
        "event": "validation",
        "time": 1e9 + step,
        "step": step,
        "valid_loss_nats_per_token": 2.5,
        "train_sample_loss_nats_per_token": 2.25,
        "bleu": 27.5,
        "chrf": 53.5,
        "weights": "current",
    }


def sample(step: int, text: str) -> dict[str, Any]:
    return {"event": "sample", "time": 1e9, "step": step, "source": text, "reference": text, "translation": text}


def write_attempt(folder: Path, start_step: int, end_step: int) -> None:
    with TensorBoardMirror(folder, start_step, warn=refuse_warning) as mirror:
        for step in range(start_step + 1, end_step + 1):
            mirror.write(TRAIN | {"step": step, "time": 1e9 + step, "loss_scale": 1024.0})
            if step % 2 == 0:
                mirror.write(validation(step))
                mirror.write(sample(step, "text"))
                mirror.write({"event": "checkpoint", "time": 1e9, "step": step, "path": "x"})
        mirror.write({"event": "stop", "time": 1e9, "step": end_step, "reason": "signal"})


def read(folder: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def wait_for_next_second() -> None:
    """TensorBoard reads files by name, and their names have the second in which they were begun."""
    time.sleep(1.01 - time.time() % 1)


def test_every_tag_is_there_at_its_step_and_time(tmp_path):
    write_attempt(tmp_path, 0, 4)
    found = read(tmp_path)
    trained = [1, 2, 3, 4]
    expected = {
        "train/loss_nats_per_token": trained,
        "train/learning_rate": trained,
        "train/gradient_norm": trained,
        "train/target_tokens_per_second": trained,
        "train/seconds_per_step": trained,
        "train/loss_scale": trained,
        "train/epochs": trained,
        "valid/loss_nats_per_token": [2, 4],
        "train_sample/loss_nats_per_token": [2, 4],
        "valid/bleu": [2, 4],
        "valid/chrf": [2, 4],
    }
    assert {tag: [point.step for point in found.Scalars(tag)] for tag in found.Tags()["scalars"]} == expected
    assert [point.wall_time for point in found.Scalars("valid/bleu")] == [1e9 + 2, 1e9 + 4]
    assert found.Scalars("valid/bleu")[0].value == 27.5
    assert [point.step for point in found.Tensors("valid/sample/text_summary")] == [2, 4]


def test_steps_that_are_done_again_are_drawn_once(tmp_path):
    write_attempt(tmp_path, 0, 7)
    wait_for_next_second()
    write_attempt(tmp_path, 4, 10)
    found = read(tmp_path)
    assert [point.step for point in found.Scalars("train/loss_nats_per_token")] == list(range(1, 11))
    assert [point.step for point in found.Scalars("valid/bleu")] == [2, 4, 6, 8, 10]
    # The accumulator for programs hides no text that was written before; that of the web page does.
    shown = plugin_event_accumulator.EventAccumulator(str(tmp_path))
    shown.Reload()
    assert [point.step for point in shown.Tensors("valid/sample/text_summary")] == [2, 4, 6, 8, 10]


def test_what_came_before_a_checkpoint_is_on_disk_with_it(tmp_path):
    with TensorBoardMirror(tmp_path, 0, warn=refuse_warning) as mirror:
        mirror.write(TRAIN)
        mirror.write({"event": "checkpoint", "time": 1e9, "step": TRAIN["step"], "path": "x"})
        assert len(read(tmp_path).Scalars("train/loss_nats_per_token")) == 1


def test_points_have_a_loss_scale_only_where_there_is_one():
    assert "train/loss_scale" not in scalars(TRAIN)
    assert scalars(TRAIN | {"loss_scale": 8.0})["train/loss_scale"] == 8.0


def test_a_loss_that_is_no_number_is_a_point():
    event = TRAIN | {"loss_nats_per_token": None, "not_finite": {"loss_nats_per_token": "nan"}}
    assert math.isnan(scalars(event)["train/loss_nats_per_token"])


def test_averaged_weights_have_curves_of_their_own():
    tags = set(scalars(validation(1) | {"weights": "average of 5 checkpoints"}))
    assert tags == {"valid_average/loss_nats_per_token", "valid_average/bleu", "valid_average/chrf"}


# TensorBoard's own copy of html5lib warns of itself when it is imported.
@pytest.mark.filterwarnings("ignore:html5lib's sanitizer is deprecated:DeprecationWarning")
def test_hostile_text_is_shown_as_it_is():
    from tensorboard.plugin_util import markdown_to_safe_html

    page = markdown_to_safe_html(sample_text(sample(1, HOSTILE)))
    assert set(re.findall(r"<(\w+)", page)) == {"p", "strong"}
    shown = HOSTILE.replace("\x1b", r"\x1b").replace("\ud800", r"\ud800")
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    assert text.split("\n") == [f"{field}: {shown}" for field in ("source", "reference", "translation")]


def test_without_tensorboard_a_run_is_warned_once(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.delattr("torch.utils.tensorboard", raising=False)
    said: list[str] = []
    with TensorBoardMirror(tmp_path, 0, warn=said.append) as mirror:
        mirror.write(TRAIN)
        mirror.write(TRAIN)
    assert len(said) == 1 and "TensorBoard" in said[0]


@pytest.mark.parametrize("first_failure", [0, 3])
def test_a_full_disk_is_told_once_and_without_a_traceback(tmp_path, capfd, monkeypatch, first_failure):
    real_write = gfile.LocalFileSystem._write
    num_writes = 0

    def write(self: Any, *args: Any) -> None:
        nonlocal num_writes
        num_writes += 1
        if num_writes > first_failure:
            raise OSError(errno.ENOSPC, "No space left on device")
        real_write(self, *args)

    monkeypatch.setattr(gfile.LocalFileSystem, "_write", write)
    said: list[str] = []
    with TensorBoardMirror(tmp_path, 0, warn=said.append) as mirror:
        for step in range(300):
            mirror.write(TRAIN | {"step": step})
    assert len(said) == 1 and "No space left on device" in said[0]
    assert capfd.readouterr().err == ""
