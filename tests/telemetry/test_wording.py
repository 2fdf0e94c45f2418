"""Events read as a person would say them, and nothing in a text can act on a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from septuagint.telemetry.wording import describe, status_line, wrap

TRAIN = {
    "event": "train",
    "time": 1e9,
    "step": 12_300,
    "epochs": 1.234,
    "loss_nats_per_token": 3.21449,
    "learning_rate": 0.00099,
    "gradient_norm": 0.5234,
    "seconds_per_step": 0.3127,
    "target_tokens_per_second": 104_876.2,
    "eta_seconds": 3900.0,
    "loss_scale": None,
}


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        ({"event": "rehearsal", "seconds": 9.14, "is_compiled": True}, ["compiled and rehearsed in 9.14 s"]),
        ({"event": "rehearsal", "seconds": 0.31, "is_compiled": False}, ["rehearsed in 0.31 s"]),
        (
            {
                "event": "attempt", "attempt": 2, "start_step": 500, "max_steps": 50_000, "device": "cuda",
                "precision": "bf16", "num_parameters": 60_526_080, "num_threads": 8, "world_size": 4,
            },
            ["attempt 2  from step 500  to step 50,000  cuda  bf16  60,526,080 parameters  world of 4  8 threads"],
        ),
        (
            {
                "event": "attempt", "attempt": 1, "world_size": 2, "hosts": ["alpha", "beta"], "launcher": "openmpi",
                "interface": "eth0", "num_disks": 2,
            },
            [
                "attempt 1  world of 2",
                "    2 ranks, started by mpirun, on alpha, beta through eth0; a run folder on each of 2 disks",
            ],
        ),
        (
            {
                "event": "attempt", "attempt": 1, "start_step": 0, "num_microbatches": 2, "source_budget": 950,
                "target_budget": 1024, "attention": "tiled", "is_compiled": True, "learning_rate": "constant",
                "settings": {"training": {"consistency": 5.0, "init_from": "/runs/news"}},
            },
            [
                "attempt 1  from step 0",
                "    weights from /runs/news",
                "    a step: 2 packs of up to 950 source and 1,024 target tokens, looked at twice, tiled attention, "
                "compiled",
                "    learning rate: constant",
            ],
        ),
        (
            TRAIN,
            ["step 12,300  loss 3.214  lr 9.9e-04  grad 0.52  0.31 s/step  105k tok/s  epoch 1.23  ETA 1 h 05 min"],
        ),
        (
            {
                "event": "skipped", "step": 512, "loss_nats_per_token": None, "gradient_norm": None,
                "loss_scale": 32768.0, "in_a_row": 2,
                "not_finite": {"loss_nats_per_token": "nan", "gradient_norm": "inf"},
            },
            ["step 512 skipped  loss nan  grad inf  loss scale 32,768  2 in a row"],
        ),
        (
            {
                "event": "validation", "step": 2000, "seconds": 12.44, "valid_loss_nats_per_token": 2.31,
                "train_sample_loss_nats_per_token": 2.105, "bleu": 27.312, "chrf": 53.2, "num_lines": 3003,
                "is_best": True, "weights": "current", "sets": None,
            },
            [
                "step 2,000 validation  loss 2.310  on training text 2.105  BLEU 27.31  chrF 53.20  3,003 lines  "
                "12.4 s  best so far"
            ],
        ),
        (
            {
                "event": "validation", "step": 2000, "bleu": 27.312, "is_best": False, "weights": "ema",
                "sets": {"news": {"bleu": 30.0, "chrf": 55.0}, "talks": {"bleu": 24.0}},
            },
            [
                "step 2,000 validation  BLEU 27.31  weights: ema",
                "    news  BLEU 30.00  chrF 55.00",
                "    talks  BLEU 24.00",
            ],
        ),
        (
            {
                "event": "sample", "step": 1000, "source": "A cat.", "reference": "Eine Katze.",
                "translation": "Ein Kater.",
            },
            [
                "step 1,000 sample",
                "    source       A cat.",
                "    reference    Eine Katze.",
                "    translation  Ein Kater.",
            ],
        ),
        (
            {"event": "checkpoint", "step": 1000, "seconds": 0.0512, "bytes": 726_400_000, "path": "checkpoints/1"},
            ["step 1,000 checkpoint  726MB  51.2 ms  checkpoints/1"],
        ),
        ({"event": "warning", "message": "the disk is full"}, ["warning: the disk is full"]),
        (
            {"event": "stop", "step": 50_000, "reason": "max_steps", "hours": 5.214},
            ["stopped at step 50,000: all steps are done  after 5.21 h"],
        ),
        ({"event": "something that another module records"}, []),
    ],
)  # fmt: skip
def test_an_event_in_words(event, lines):
    assert describe(event) == lines


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (61, "1 min"),
        (3599, "1 h 00 min"),
        (7380, "2 h 03 min"),
        (86_400 * 2 + 3 * 3600, "2 d 03 h"),
        (float("inf"), "unknown"),
    ],
)
def test_time_to_go_in_words(seconds, words):
    assert describe({"event": "train", "step": 1, "eta_seconds": seconds}) == [f"step 1  ETA {words}"]


@pytest.mark.parametrize(("rate", "words"), [(950, "950"), (12_345, "12.3k"), (123_456, "123k"), (1_234_567, "1.2M")])
def test_rates_in_words(rate, words):
    assert describe({"event": "train", "step": 1, "target_tokens_per_second": rate}) == [f"step 1  {words} tok/s"]


def test_hostile_text_is_shown_harmlessly():
    text = "[red] \x1b[2J </script> \r\n \x9b31m \u202eabc \ud800"
    lines = describe({"event": "sample", "step": 1, "source": text, "reference": text, "translation": text})
    assert len(lines) == 4
    assert lines[1] == r"    source       [red] \x1b[2J </script> \r\n \x9b31m \u202eabc \ud800"


def test_a_long_sample_is_cut():
    lines = describe({"event": "sample", "step": 1, "source": "x" * 10_000, "reference": "", "translation": ""})
    assert lines[1].endswith("x ...") and len(lines[1]) < 600


def status(width: int, **changes: object) -> str:
    train = TRAIN | changes
    return status_line(train, step=12_345, max_steps=50_000, best_bleu=27.31, width=width)


def test_a_wide_live_line_shows_everything():
    assert status(200) == (
        "step 12,345/50,000  loss 3.214  0.31 s/step  105k tok/s  lr 9.9e-04  grad 0.52  ETA 1 h 05 min  best BLEU 27.3"
    )


def test_a_narrow_live_line_leaves_out_what_matters_less():
    assert status(80) == "step 12,345/50,000  loss 3.214  105k tok/s  ETA 1 h 05 min  best BLEU 27.3"
    assert status(40) == "step 12,345/50,000  loss 3.214"
    assert status(9) == "step 12,3"
    for width in range(1, 150):
        assert len(status(width)) <= width


def test_time_to_go_runs_down_between_events():
    assert "ETA 50 min" in status(200, step=12_045, eta_seconds=3300, seconds_per_step=1.0)


def test_a_live_line_needs_no_event_to_begin_with():
    assert status_line({}, step=0, max_steps=None, best_bleu=None, width=80) == "step 0"


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("step 4 validation  loss 5.103", ["step 4 validation  loss 5.103"]),
        (
            "step 400 validation  loss 5.103  on training text 5.022  BLEU 0.00  chrF 5.27  1,014 lines  12.1 s",
            [
                "step 400 validation  loss 5.103  on training text 5.022  BLEU 0.00  chrF 5.27",
                "                     1,014 lines  12.1 s",
            ],
        ),
        (
            "    a step: 2 packs of up to 950 source and 1,024 target tokens, looked at twice, not compiled",
            [
                "    a step: 2 packs of up to 950 source and 1,024 target tokens, looked at",
                "        twice, not compiled",
            ],
        ),
        (
            "    source       " + "A long sentence that goes on. " * 4,
            [
                "    source       A long sentence that goes on. A long sentence that goes on. A",
                "                 long sentence that goes on. A long sentence that goes on.",
            ],
        ),
        ("    translation  " + "猫" * 40, ["    translation  " + "猫" * 31, " " * 17 + "猫" * 9]),
    ],
)
def test_a_line_too_long_for_80_cells_goes_on_below_its_second_field(line, parts):
    assert wrap(line, 80) == parts


@given(
    indent=st.sampled_from(["", "    "]), text=st.text(alphabet="ab,  猫é🐕", max_size=99), width=st.integers(24, 60)
)
def test_a_wrapped_line_fits_and_loses_nothing_and_only_words_that_fill_a_line_are_cut(indent, text, width):
    line = indent + text.strip()
    parts = wrap(line, width)
    assert max(map(cell_len, parts)) <= width
    assert "".join("".join(parts).split()) == "".join(line.split())
    if all(cell_len(word) <= width // 2 for word in line.split()):
        assert " ".join(parts).split() == line.split()


def test_a_terminal_of_no_width_does_no_harm():
    assert "".join(part.strip() for part in wrap("    step 12,300", 0)) == "step12,300"
