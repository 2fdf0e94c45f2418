"""`septuagint translate`: as many lines as went in, columns as promised, and an end without a traceback."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import ctranslate2
import psutil
import pytest

from septuagint.data.vocabulary import EOS
from septuagint.training.checkpoint import checkpoint_path
from tests.inference.conftest import copy_run, make_obsessed_network, septuagint, write_artifact
from tests.training.conftest import Program, toy_text

LINES = toy_text(9, seed=5)[0]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
NASTY = (
    b"red\r\n\n \n\xff\xfe\x00\nred\xe2\x80\xa8dog\xc2\x85cat\x0btwo\x0c\r\r\n\xed\xa0\x80\n\t\t\n"
    b"\xf0\x9f\x90\x95\n</s>\nlast"
)


def translate(*arguments: object, text: bytes = TEXT) -> list[str]:
    result = septuagint("translate", *arguments, "--quiet", text=text)
    assert result.returncode == 0, result.stderr
    output = result.stdout.decode()
    assert output.endswith("\n") or not output
    return output.split("\n")[:-1]


def command_line(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "septuagint.cli", "translate", *map(str, arguments)]


@pytest.fixture(scope="module")
def expected(translator) -> list[list[tuple[str, str]]]:
    """(score, text) of three hypotheses for each line."""
    found = translator.translate([LINES], num_hypotheses=3)
    return [[(f"{h.score:.4f}", h.text) for h in translation.hypotheses] for translation in found]


def test_a_file_and_standard_input_give_the_same(artifact_folder, tmp_path, expected):
    (tmp_path / "text").write_bytes(TEXT)
    best = [hypotheses[0][1] for hypotheses in expected]
    assert translate(artifact_folder, tmp_path / "text", text=b"") == best
    assert translate(artifact_folder) == best


def test_scores_come_first_in_columns(artifact_folder, expected):
    rows = [line.split("\t") for line in translate(artifact_folder, "--scores")]
    assert rows == [[*hypotheses[0]] for hypotheses in expected]


def test_several_hypotheses_are_numbered_by_their_line(artifact_folder, expected):
    rows = [line.split("\t") for line in translate(artifact_folder, "--n-best", 3)]
    assert rows == [[str(n), text] for n, hypotheses in enumerate(expected, start=1) for _, text in hypotheses]
    rows = [line.split("\t") for line in translate(artifact_folder, "--n-best", 3, "--scores")]
    assert rows == [[str(n), *pair] for n, hypotheses in enumerate(expected, start=1) for pair in hypotheses]


def test_json_has_an_object_for_each_line(artifact_folder, expected):
    found = [json.loads(line) for line in translate(artifact_folder, "--json", "--n-best", 3, text=TEXT + b"\n")]
    assert [entry["line"] for entry in found] == list(range(1, 11))
    for entry, hypotheses in zip(found, expected, strict=False):
        assert [(f"{h['score']:.4f}", h["text"]) for h in entry["hypotheses"]] == hypotheses
        assert (entry["translation"], entry["score"]) == (hypotheses[0][1], entry["hypotheses"][0]["score"])
    assert found[-1]["translation"] == ""


def test_as_many_lines_come_out_as_went_in(artifact_folder):
    found = translate(artifact_folder, text=NASTY)
    assert len(found) == NASTY.count(b"\n") + 1
    assert [bool(line) for line in found] == [True, False, False, True, True, True, False, True, True, True]
    assert not any("\r" in line for line in found)
    rows = translate(artifact_folder, "--n-best", 2, "--scores", text=NASTY)
    assert len(rows) == 2 * len(found)
    assert all(row.count("\t") == 2 for row in rows)
    assert translate(artifact_folder, text=b"") == []
    assert translate(artifact_folder, text=b"\n\n") == ["", ""]


def test_lines_that_are_not_utf_8_are_counted_in_a_warning(artifact_folder):
    result = septuagint("translate", artifact_folder, "--quiet", text=b"red\n\xff\ndog \xc3\n")
    assert result.returncode == 0
    assert result.stderr == b"warning: 2 lines were not UTF-8; what could not be read became U+FFFD\n"


def test_progress_is_told_on_standard_error_alone(artifact_folder, tmp_path):
    (tmp_path / "text").write_bytes(TEXT)
    result = septuagint("translate", artifact_folder, tmp_path / "text")
    assert result.stderr.startswith(b"translating: 9 lines")
    assert result.stdout.count(b"\n") == 9


def test_a_reader_that_leaves_early_is_no_error_worth_a_traceback(artifact_folder, tmp_path):
    (tmp_path / "text").write_bytes(TEXT * 2000)
    process = subprocess.Popen(
        command_line(artifact_folder, tmp_path / "text", "--quiet"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_full_disk_is_told(artifact_folder):
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            command_line(artifact_folder, "--quiet"), input=TEXT, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert result.returncode == 2
    assert result.stderr == b"error: the result could not be written: No space left on device\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once_however_much_is_to_do(artifact_folder, vocabulary, tmp_path, number):
    network = make_obsessed_network(vocabulary, EOS + 2)
    slow = write_artifact(tmp_path / "slow", artifact_folder, network, max_length_extra=1000)
    (tmp_path / "text").write_bytes(TEXT * 400)  # for minutes
    process = subprocess.Popen(
        command_line(slow, tmp_path / "text", "--beam", 16, "--threads", 1),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while psutil.Process(process.pid).cpu_times().user < 1.5:  # it takes half a second to start
        assert process.poll() is None
        time.sleep(0.05)
    begin = time.monotonic()
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert time.monotonic() - begin < 5
    assert output == b""
    assert errors == b"\nstopped\n"
    assert b"Traceback" not in errors


class TestMistakes:
    def refused(self, *arguments: object) -> str:
        result = septuagint("translate", *arguments, text=TEXT)
        assert result.returncode == 2
        assert result.stdout == b""
        message = result.stderr.decode()
        assert message.startswith("error: ")
        assert message.count("\n") == 1
        return message

    def test_a_model_that_is_none_is_named_with_what_would_be_one(self, run_folder, tmp_path):
        (tmp_path / "file").write_text("text")
        (tmp_path / "folder").mkdir()
        checkpoint = checkpoint_path(run_folder, 40)
        cases = [
            (tmp_path / "nothing", "no such folder"),
            (tmp_path / "file", "neither an exported folder nor a run folder"),
            (tmp_path / "folder", "neither an exported folder nor a run folder"),
            (checkpoint, "neither an exported folder nor a run folder"),
        ]
        for path, problem in cases:
            message = self.refused(path)
            assert f"{path}: {problem}" in message
            assert "septuagint export" in message

    def test_a_run_that_has_no_checkpoint_yet_is_told_to_go_on(self, own_run):
        shutil.rmtree(own_run / "checkpoints")
        (own_run / "best").unlink()
        verbs = [("translate",), ("evaluate",), ("export", "--to", own_run.with_name("exported"))]
        for verb, *options in verbs:
            result = septuagint(verb, own_run, *options)
            assert result.returncode == 2
            assert result.stderr.decode() == (
                f"error: {own_run}: this run has no checkpoint yet; run `septuagint train` to go on until it has one\n"
            )

    def test_a_damaged_model_is_named_with_a_cure(self, own_artifact):
        (own_artifact / "model" / "model.bin").write_bytes(b"")
        assert "export it again" in self.refused(own_artifact)

    def test_a_text_that_is_not_there_is_named(self, artifact_folder, tmp_path):
        assert f"{tmp_path / 'text'}: no such file" in self.refused(artifact_folder, tmp_path / "text")

    @pytest.mark.skipif(ctranslate2.get_cuda_device_count() > 0, reason="there is a GPU")
    def test_a_gpu_that_is_not_there_cannot_be_asked_for(self, artifact_folder):
        assert "no GPU that CTranslate2 can use" in self.refused(artifact_folder, "--device", "cuda")

    def test_an_unknown_device_is_answered_with_the_known_ones(self, artifact_folder):
        assert "must be auto, cpu or cuda" in self.refused(artifact_folder, "--device", "gpu")

    @pytest.mark.parametrize("option", [("--beam", 0), ("--n-best", 33)])
    def test_numbers_out_of_range_are_told(self, artifact_folder, option):
        result = septuagint("translate", artifact_folder, *option)
        assert result.returncode == 2
        assert f"Invalid value for '{option[0]}'" in result.stderr.decode()
        assert b"Traceback" not in result.stderr


def test_a_run_folder_is_exported_on_the_way_once(run_folder, tmp_path):
    run = copy_run(run_folder, tmp_path / "mein Lauf ü")
    (tmp_path / "text").write_bytes(TEXT)
    programs = []
    for _ in range(2):
        programs.append(Program(tmp_path, ["translate", str(run), str(tmp_path / "text")]))
        assert programs[-1].wait() == 0, programs[-1].stderr
    first, second = programs
    assert first.stdout == second.stdout
    assert first.stdout.count("\n") == len(LINES)
    assert "exporting the best checkpoint" in first.stderr
    assert "exporting" not in second.stderr
