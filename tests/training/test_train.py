"""A training from the outside: what it measures, keeps, stops at, shows and writes."""

import dataclasses
import json
import math
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from septuagint.config_file import load_config
from septuagint.data.dataset import open_dataset
from septuagint.inference.beam import translate_ids
from septuagint.inference.scoring import score
from septuagint.model.transformer import Transformer
from septuagint.progress import ProgressReport
from septuagint.training.checkpoint import average_weights, best_path, checkpoint_path, load_weights
from septuagint.training.state import load_weights_into

# So little that the weights stay as they are.
STILL = ["training.learning_rate=1e-12", "training.max_steps=1"]


class TestValidation:
    def test_scores_are_those_of_text_that_was_really_translated(self, undisturbed):
        config = load_config(undisturbed.config_path)
        dataset = open_dataset(config.data, ProgressReport(is_quiet=True))
        checkpoint = load_weights(checkpoint_path(undisturbed.run_path("run"), 12))
        model = Transformer(config.model, dataset.vocabulary.size)
        load_weights_into(model, checkpoint.weights, "")
        (text,) = dataset.valid
        found = translate_ids(model, list(text.source), beam_size=config.training.beam_size)
        translations = [dataset.vocabulary.decode(hypotheses[0].ids) for hypotheses in found]
        expected = dataclasses.asdict(score(translations, text.target_lines, "de"))
        assert checkpoint.state["validations"][-1]["scores"] == expected
        event = undisturbed.scores()[2]
        assert {key: event[key] for key in expected} == expected
        assert event["bleu_signature"].startswith("nrefs:1|case:mixed|")

    def test_both_losses_are_without_dropout_and_label_smoothing(self, tiny, undisturbed):
        start = f"training.init_from={undisturbed.run_path('run')}"
        disturbances = ["training.label_smoothing=0.5", "model.dropout=0.5"]
        plain = tiny.train(start, *STILL, run="plain").progress.validations[-1]
        disturbed = tiny.train(start, *STILL, *disturbances, run="disturbed").progress.validations[-1]
        before = undisturbed.scores()[2]
        for validation in (plain, disturbed):
            assert validation.valid_loss == pytest.approx(before["valid_loss_nats_per_token"], rel=1e-6)
            assert validation.train_sample_loss == pytest.approx(before["train_sample_loss_nats_per_token"], rel=1e-6)
        assert validation.valid_loss != validation.train_sample_loss

    def test_several_sets_are_scored_together_and_each_alone(self, own_tiny):
        config = own_tiny.config_path
        config.write_text(
            config.read_text() + '[[data.valid]]\nname = "more"\nsource = "test.en"\ntarget = "test.de"\n'
        )
        command = [sys.executable, "-m", "septuagint.cli", "prepare", str(config), "--quiet", "--workers", "1"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        outcome = own_tiny.train("training.max_steps=2")
        (event,) = own_tiny.scores()[:1]
        assert event["num_lines"] == 16
        assert event["sets"].keys() == {"valid", "more"}
        assert outcome.best.scores_of_sets["more"].num_lines == 8


class TestWhatIsKept:
    @pytest.mark.parametrize("metric", ["bleu", "chrf", "loss"])
    def test_the_best_by_the_chosen_metric_is_kept(self, tiny, metric):
        outcome = tiny.train(f"training.best_metric={metric}", "training.average_checkpoints=0")
        field, sign = ("valid_loss_nats_per_token", -1) if metric == "loss" else (metric, 1)
        best = max(tiny.scores(), key=lambda event: sign * event[field])
        assert (outcome.best.step, best_path(outcome.run)) == (best["step"], checkpoint_path(outcome.run, best["step"]))

    def test_a_validation_without_a_number_is_never_the_best(self, undisturbed):
        validation = dataclasses.replace(undisturbed.train().progress.validations[0], valid_loss=math.nan)
        assert validation.rank("loss") == (-math.inf, -math.inf)

    def test_two_whole_checkpoints_the_best_and_the_weights_of_five_are_kept(self, tiny):
        tiny.train("training.checkpoint_every=1", "training.best_metric=bleu")
        run = tiny.run_path("run")
        best = best_path(run).name
        whole = {path.parent.name for path in run.glob("checkpoints/*/optimizer.safetensors")}
        assert whole == {"step-00000012", "step-00000011", best} - {"averaged"}
        kept = {path.parent.name for path in run.glob("checkpoints/*/model.safetensors")}
        assert kept == {f"step-{step:08d}" for step in range(8, 13)} | {best, "averaged"}

    def test_the_average_is_that_of_the_last_regular_checkpoints(self, tiny):
        tiny.train("training.average_checkpoints=3", "training.max_steps=10")
        averaged = load_weights(checkpoint_path(tiny.run_path("run"), "averaged"))
        assert averaged.state["of_steps"] == [10, 9, 6]
        expected = average_weights([checkpoint_path(tiny.run_path("run"), step) for step in (10, 9, 6)])
        assert all(torch.equal(averaged.weights[name], expected[name]) for name in expected)
        assert tiny.scores()[-1]["weights"] == "average of 3 checkpoints"

    def test_the_moving_average_is_what_is_validated_and_translated_with(self, tiny):
        outcome = tiny.train("training.ema_decay=0.9", "training.average_checkpoints=0")
        assert {event["weights"] for event in tiny.scores()} == {"ema"}
        saved = load_weights(checkpoint_path(outcome.run, 12))
        model_loss = tiny.train(f"training.init_from={saved.path}", *STILL, run="new").progress.validations[-1]
        assert model_loss.valid_loss == pytest.approx(outcome.progress.validations[-1].valid_loss, rel=1e-6)

    @pytest.mark.parametrize("ema", [[], ["training.ema_decay=0.9"]])
    def test_a_new_run_starts_from_the_weights_it_is_given(self, tiny, undisturbed, ema):
        run = undisturbed.run_path("run")
        for start in (run, checkpoint_path(run, 12)):
            outcome = tiny.train(f"training.init_from={start}", *STILL, *ema, run=start.name)
            expected = undisturbed.scores()[2]["valid_loss_nats_per_token"]
            assert outcome.best.valid_loss == pytest.approx(expected, rel=1e-6)
        # Once it has checkpoints of its own it goes on from them.
        again = tiny.train(f"training.init_from={start}", *STILL, *ema, "training.max_steps=2", run=start.name)
        assert again.progress.step == 2

    def test_a_mirror_has_the_record_to_its_last_line_and_the_best_weights(self, tiny, tmp_path):
        tiny.train(f"training.mirror={tmp_path / 'mirror'}")
        run, mirror = tiny.run_path("run"), tmp_path / "mirror"
        for name in ("log.txt", "environment.json", "config.toml", "events/rank-0.jsonl"):
            assert (mirror / name).read_bytes() == (run / name).read_bytes()
        assert load_weights(mirror).step == load_weights(run).step == 12

    def test_a_mirror_that_cannot_be_written_is_warned_of_to_the_last(self, tiny, tmp_path):
        (tmp_path / "file").touch()
        program = tiny.command(f"training.mirror={tmp_path / 'file'}", "training.max_steps=3")
        assert program.exit_code == 0
        # At the checkpoint, at the one with its validation, and at the end.
        assert program.stderr.count("not everything could be copied to the mirror") == 3


class TestStopping:
    def test_patience_counts_validations_without_a_better_one(self, tiny):
        settings = ["training.learning_rate=1e-12", "training.best_metric=bleu", "training.validate_every=1"]
        outcome = tiny.train(*settings, "training.patience=2")
        assert (outcome.reason, outcome.progress.step, outcome.best.step) == ("patience", 3, 1)
        assert tiny.train(*settings, "training.patience=2").was_finished
        outcome = tiny.train(*settings, "training.patience=4")
        assert (outcome.reason, outcome.progress.step) == ("patience", 5)

    def test_hours_are_those_of_all_attempts_together(self, tiny):
        hours = 1 / 3600
        outcome = tiny.train("training.max_steps=100000", f"training.max_hours={hours}")
        assert outcome.reason == "max_hours"
        assert outcome.progress.validations[-1].step == outcome.progress.step
        assert 1 <= outcome.progress.seconds < 20
        again = tiny.train("training.max_steps=100000", f"training.max_hours={hours}")
        assert (again.was_finished, again.reason) == (True, "max_hours")
        more = tiny.train("training.max_steps=100000", f"training.max_hours={2 * hours}")
        assert more.progress.step > outcome.progress.step

    def test_a_clock_that_is_put_back_changes_nothing(self, tiny, undisturbed, during_step, monkeypatch):
        now = time.time
        during_step({5: lambda: monkeypatch.setattr(time, "time", lambda: now() - 3600)})
        outcome = tiny.train()
        assert tiny.result() == undisturbed.result()
        assert 0 < outcome.progress.seconds < 30
        for event in tiny.events():
            seconds = [event[key] for key in event if "seconds" in key and isinstance(event[key], float)]
            seconds += list(event.get("outside_seconds", {}).values()) + event.get("wall", [])
            assert all(value >= 0 for value in seconds)

    def test_out_of_memory_names_the_setting_to_lower_and_to_what(self, tiny):
        budget = ["training.tokens_per_step=200000", "training.microbatch_tokens=200000"]
        program = tiny.command(*budget, spare_bytes=400_000_000)
        assert program.exit_code == 2
        assert program.stderr.startswith(
            "error: out of memory on the computer; set training.microbatch_tokens = 100000"
        )
        assert "Traceback" not in program.stderr


def read_until(words: str, terminal: int, shown: str) -> str:
    while words not in shown:
        assert select.select([terminal], [], [], 60)[0], shown
        shown += os.read(terminal, 4096).decode()
    return shown


class TestWhatIsShown:
    def test_a_pipe_gets_plain_lines_and_the_log_the_same(self, tiny):
        program = tiny.command(options=())
        assert program.exit_code == 0
        lines = program.stderr.splitlines()
        if lines[0].startswith("verifying: "):  # what was prepared a moment ago is not known yet
            del lines[0]
        assert re.fullmatch(r"attempt 1  from step 0  to step 12  CPU  fp32  [\d,]+ parameters .*", lines[0])
        assert lines[-1].startswith("stopped at step 12: all steps are done")
        assert "\x1b" not in program.stderr
        log = (tiny.run_path("run") / "log.txt").read_text().splitlines()
        assert [line.partition("  ")[2] for line in log] == lines
        sample = lines.index("step 6 sample")
        assert [line.split()[0] for line in lines[sample + 1 : sample + 4]] == ["source", "reference", "translation"]

    def test_a_terminal_of_80_columns_has_a_live_line_that_fits_and_its_cursor_back_after_ctrl_c(
        self, tiny, monkeypatch
    ):
        monkeypatch.setenv("TERM", "xterm")
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))
        settings = ["training.max_steps=100000", "training.tokens_per_step=4800"]
        program = tiny.start(*settings, options=(), terminal=Path(os.ttyname(slave)))
        shown = ""
        for words in ("loss", "Ctrl-C again"):
            shown = read_until(words, master, shown)
            program.signal(signal.SIGINT)
        assert program.wait() == -signal.SIGINT
        for descriptor in (master, slave):
            os.close(descriptor)
        live = [line for line in re.split(r"\r|\n", shown) if "step " in line and "/100,000" in line]
        assert live
        assert max(len(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)) for line in live) <= 80
        assert re.findall(r"\x1b\[\?25[lh]", shown)[-1] == "\x1b[?25h"

    def test_json_is_the_only_thing_on_standard_output_and_quiet_says_nothing(self, tiny):
        program = tiny.command(options=("--json", "--quiet"))
        assert program.stderr == ""
        result = json.loads(program.stdout)
        assert (result["step"], result["reason"]) == (12, "max_steps")
        assert result["best"]["step"] == 12
        assert Path(result["best_checkpoint"]) == checkpoint_path(tiny.run_path("run"), 12)

    def test_the_record_only_grows_and_tensorboard_is_beside_it(self, tiny):
        tiny.train("training.max_steps=6")
        record = tiny.run_path("run") / "events" / "rank-0.jsonl"
        before = record.read_bytes()
        tiny.train()
        assert record.read_bytes().startswith(before)
        kinds = {event["event"] for event in tiny.events()}
        assert kinds == {
            *("attempt", "data", "hardware", "steps", "train", "machine", "validation", "sample", "checkpoint", "stop")
        }
        assert len(list(tiny.run_path("run").glob("tensorboard/events.*"))) == 2

    def test_without_tensorboard_a_run_is_the_same(self, tiny, undisturbed, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
        monkeypatch.delattr("torch.utils.tensorboard", raising=False)
        tiny.train()
        assert tiny.result() == undisturbed.result()
        assert capsys.readouterr().err.count("nothing more is written for TensorBoard") == 1

    def test_a_toy_language_is_learned(self, tiny):
        budgets = ["training.tokens_per_step=512", "training.microbatch_tokens=512", "training.max_steps=100"]
        every = [f"training.{name}_every=100" for name in ("validate", "checkpoint", "sample")]
        outcome = tiny.train(*budgets, *every)
        assert outcome.best.scores.chrf > 40


@pytest.mark.slow
def test_compiled_code_learns_what_plain_code_learns(tiny):
    """Without dropout: compiled code drops by a hash, plain code by torch's random numbers."""
    if " " in torch.__file__:
        pytest.skip("torch's compiler does not quote its own path, which has a space here")
    tiny.train("model.dropout=0", run="plain")
    program = tiny.start("model.dropout=0", "training.compile=on")
    assert program.wait(timeout=600) == 0
    (attempt,) = tiny.events(kind="attempt")
    assert attempt["is_compiled"]
    assert not tiny.events(kind="warning")
    for found, expected in zip(tiny.scores(), tiny.scores("plain"), strict=True):
        assert found["valid_loss_nats_per_token"] == pytest.approx(expected["valid_loss_nats_per_token"], rel=1e-3)


def test_a_training_does_without_kernels_that_cannot_be_compiled(tiny, monkeypatch):
    pytest.importorskip("triton", reason="needs triton")
    from septuagint.model.fast import FastPass
    from septuagint.training import state

    compiler: dict[str, Any] = {"__name__": "triton.runtime.build"}
    exec("def fail(*arguments): raise RuntimeError('Failed to find C compiler')", compiler)
    monkeypatch.setattr(state, "has_kernels", lambda *arguments: True)
    monkeypatch.setattr(FastPass, "hidden_states", compiler["fail"])
    tiny.train("training.max_steps=2")
    (warning,) = tiny.events(kind="warning")
    assert warning["message"] == "compiling failed (RuntimeError); going on without it"
    assert not tiny.events(kind="rehearsal")[0]["is_compiled"]
    monkeypatch.setattr(FastPass, "hidden_states", lambda *arguments: 1 / 0)  # a mistake of our own is no reason
    with pytest.raises(ZeroDivisionError):
        tiny.train("training.max_steps=2", run="broken")
