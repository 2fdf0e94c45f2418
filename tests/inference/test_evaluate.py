"""`septuagint evaluate`: scores as programs and people read them, and mistakes told before any work is done."""

import json
import re
import shutil
from pathlib import Path

import pytest

from septuagint.data.manifest import read_manifest, write_manifest
from septuagint.inference.export import export
from septuagint.inference.scoring import compare, measure
from septuagint.training.checkpoint import point_best
from tests.inference.conftest import QUIET, copy_run, prepare_with_learned_text, septuagint, write_other_text
from tests.training.conftest import Program, toy_text

SOURCES, REFERENCES = toy_text(12, seed=5)
REFERENCES = [line.replace(" .", ".") for line in REFERENCES]


@pytest.fixture
def text(tmp_path: Path) -> list[str]:
    """The options that name the text."""
    (tmp_path / "text.en").write_text("".join(f"{line}\n" for line in SOURCES))
    (tmp_path / "text.de").write_text("".join(f"{line}\n" for line in REFERENCES))
    return ["--source", str(tmp_path / "text.en"), "--reference", str(tmp_path / "text.de")]


@pytest.fixture(scope="module")
def early_folder(run_folder, tmp_path_factory) -> Path:
    """The same run when it knew less."""
    target = tmp_path_factory.mktemp("early") / "artifact"
    return export(run_folder, target, checkpoint="10", quantization="float32", report=QUIET).folder


def evaluate(*arguments: object) -> dict:
    result = septuagint("evaluate", *arguments, "--json", "--quiet")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def refused(*arguments: object) -> str:
    result = septuagint("evaluate", *arguments, "--quiet")
    assert result.returncode == 2
    assert result.stdout == b""
    message = result.stderr.decode()
    assert message.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in message
    return message


def test_json_has_every_score_with_interval_and_signature(artifact_folder, text, tmp_path, translator):
    found = evaluate(artifact_folder, *text, "--output", tmp_path / "out.de")
    assert found["model"] == str(artifact_folder)
    assert (found["lines"], found["beam_size"], found["step"], found["quantization"]) == (12, 4, 40, "float32")
    translations = [translation.text for translation in translator.translate([SOURCES])]
    assert (tmp_path / "out.de").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in translations)
    for metric in measure(translations, REFERENCES, "de"):
        shown = found["metrics"][metric.name]
        assert shown["value"] == pytest.approx(metric.value)
        assert shown["low"] <= shown["value"] <= shown["high"]
        assert shown["signature"] == metric.signature
    assert found["metrics"].keys() == {"BLEU", "chrF2", "TER"}
    assert found["comparisons"] == {}
    assert found["target_tokens"] == sum(found.num_pieces for found in translator.translate([SOURCES]))
    assert found["target_tokens_per_second"] == pytest.approx(found["target_tokens"] / found["seconds"])


def test_a_beam_can_be_chosen(artifact_folder, text, tmp_path, translator):
    assert evaluate(artifact_folder, *text, "--beam", 1, "--output", tmp_path / "out.de")["beam_size"] == 1
    greedy = [translation.text for translation in translator.translate([SOURCES], beam_size=1)]
    assert (tmp_path / "out.de").read_text(encoding="utf-8").splitlines() == greedy


def test_a_baseline_is_another_model_or_its_translations(artifact_folder, early_folder, text, tmp_path):
    by_model = evaluate(artifact_folder, *text, "--baseline", early_folder)["comparisons"]
    evaluate(early_folder, *text, "--output", tmp_path / "early.de")
    by_file = evaluate(artifact_folder, *text, "--baseline", tmp_path / "early.de", "--output", tmp_path / "late.de")
    assert by_file["comparisons"] == by_model
    late, early = ((tmp_path / f"{name}.de").read_text().splitlines() for name in ("late", "early"))
    for comparison in compare(late, early, REFERENCES, "de"):
        shown = by_model[comparison.name]
        assert (shown["value"], shown["baseline"]) == (comparison.value, comparison.baseline)
        assert shown["p_value"] == comparison.p_value
    assert by_model["chrF2"]["is_better"]


def test_people_are_told_in_words(artifact_folder, early_folder, text):
    result = septuagint("evaluate", artifact_folder, *text, "--baseline", early_folder)
    lines = result.stdout.decode().splitlines()
    assert "en to de, modern, float32, step 40, beam 4" in lines[0]
    assert lines[1].startswith("12 lines in ")
    assert [line.split()[0] for line in lines[2:]] == 3 * ["BLEU", "chrF2", "TER"]
    assert all("95% interval" in line for line in lines[2:5])
    assert all("against the baseline's" in line and "p = " in line for line in lines[5:8])
    assert all("|version:" in line for line in lines[8:])
    assert "translating: 12 lines" in result.stderr.decode()


def test_a_single_line_has_no_interval(artifact_folder, tmp_path):
    (tmp_path / "a").write_text(SOURCES[0])
    (tmp_path / "b").write_text(REFERENCES[0])
    result = septuagint("evaluate", artifact_folder, "--source", tmp_path / "a", "--reference", tmp_path / "b")
    assert result.returncode == 0, result.stderr
    assert b"1 lines in " in result.stdout
    assert b"interval" not in result.stdout


def test_texts_of_different_length_are_refused_before_the_model_is_even_opened(text, tmp_path):
    (tmp_path / "text.de").write_text("".join(f"{line}\n" for line in REFERENCES[:-2]))
    message = refused(tmp_path / "no model", *text)
    assert f"{tmp_path / 'text.en'} has 12 lines, but {tmp_path / 'text.de'} has 10" in message


def test_no_text_is_refused(artifact_folder, text, tmp_path):
    for name in ("text.en", "text.de"):
        (tmp_path / name).write_bytes(b"")
    assert "there are no lines to evaluate on" in refused(artifact_folder, *text)
    (tmp_path / "text.en").unlink()
    assert "text.en: no such file" in refused(artifact_folder, *text)


def test_a_baseline_of_another_length_is_refused(artifact_folder, text, tmp_path):
    (tmp_path / "other.de").write_text("eins\nzwei\n")
    message = refused(artifact_folder, *text, "--baseline", tmp_path / "other.de")
    assert f"{tmp_path / 'other.de'} has 2 lines, but the references are 12" in message


def test_a_baseline_that_is_not_there_is_refused(artifact_folder, text, tmp_path):
    for options in (text, []):
        message = refused(artifact_folder, *options, "--baseline", tmp_path / "two.txt")
        assert f"--baseline {tmp_path / 'two.txt'}: no such file or folder; give a file of translations, or" in message


def test_references_that_look_tokenised_are_warned_of(artifact_folder, text, tmp_path):
    (tmp_path / "text.de").write_text("".join(f"{line}\n" for line in toy_text(12, seed=5)[1]))
    result = septuagint("evaluate", artifact_folder, *text, "--quiet")
    assert result.returncode == 0
    assert f"warning: references in {tmp_path / 'text.de'}: 12 of 12 lines look tokenised" in result.stderr.decode()


@pytest.mark.parametrize("name", ["text.en", "text.de"])
def test_a_side_without_text_is_refused(text, tmp_path, name):
    (tmp_path / name).write_text(12 * " \n")
    message = refused(tmp_path / "no model", *text)
    assert f"{tmp_path / name}: all of its 12 lines are empty; give text to compare line by line" in message


def test_lines_that_are_empty_on_one_side_are_warned_of(artifact_folder, text, tmp_path):
    sources, references = list(SOURCES), list(REFERENCES)
    sources[3] = references[5] = references[6] = sources[9] = references[9] = ""
    (tmp_path / "text.en").write_text("".join(f"{line}\n" for line in sources))
    (tmp_path / "text.de").write_text("".join(f"{line}\n" for line in references))
    result = septuagint("evaluate", artifact_folder, *text, "--quiet")
    assert result.returncode == 0
    warnings, told = result.stderr.decode(), "of 12 lines are empty where the other side is not, line"
    assert f"warning: sources in {tmp_path / 'text.en'}: 1 {told} 4 first; " in warnings
    assert f"warning: references in {tmp_path / 'text.de'}: 2 {told} 6 first; " in warnings


def test_lines_that_are_not_utf_8_are_warned_of(artifact_folder, text, tmp_path):
    (tmp_path / "text.en").write_bytes(b"\xff\n" * 12)
    result = septuagint("evaluate", artifact_folder, *text, "--quiet")
    assert result.returncode == 0
    assert f"warning: {tmp_path / 'text.en'}: 12 lines are not UTF-8" in result.stderr.decode()


def test_an_output_without_a_folder_is_refused_before_any_work(text, tmp_path):
    words = refused(tmp_path / "no model either", *text, "--output", tmp_path / "nowhere" / "out.de")
    assert f"there is no folder {tmp_path / 'nowhere'}; make it first" in words


def test_a_run_folder_is_evaluated_with_its_best_checkpoint(run_folder, text, tmp_path):
    run = copy_run(run_folder, tmp_path / "run")
    point_best(run, 20)
    program = Program(tmp_path, ["evaluate", str(run), *text, "--json", "--quiet"])
    assert program.wait() == 0, program.stderr
    found = json.loads(program.stdout)
    assert (found["step"], found["quantization"]) == (20, "int8")
    assert found["model"] == str(run / "artifact")


def test_a_run_alone_is_evaluated_on_its_test_sets(own_run, artifact_folder, prepared, tmp_path):
    found = evaluate(own_run)
    assert list(found["sets"]) == ["test"]
    text = ["--source", prepared / "test.en", "--reference", prepared / "test.de"]
    given = evaluate(own_run, *text, "--output", tmp_path / "out.de")
    assert found["sets"]["test"]["metrics"] == given["metrics"]
    assert evaluate(own_run, "--baseline", artifact_folder)["sets"]["test"]["comparisons"].keys() == {
        *("BLEU", "chrF2", "TER")
    }
    lines = septuagint("evaluate", own_run, "--quiet").stdout.decode().splitlines()
    assert lines[1].startswith("test: 8 lines in ")


def test_a_run_that_is_not_there_is_refused_for_that(tmp_path):
    assert f"{tmp_path / 'run'}: no such folder; give a run folder, such as runs/news" in refused(tmp_path / "run")


def test_what_has_no_test_sets_says_what_to_give(own_run, artifact_folder, text, tmp_path):
    assert "only a run folder knows of test sets" in refused(artifact_folder)
    assert "two sides of one text" in refused(own_run, *text[:2])
    for options in (["--output", tmp_path / "out.de"], ["--baseline", tmp_path / "text.de"]):
        assert "for one text: give --source and --reference" in refused(own_run, *options)
    config = own_run / "config.toml"
    config.write_text(re.sub(r'^folder = ".*?"', f'folder = "{tmp_path}"', config.read_text(), flags=re.MULTILINE))
    assert f"{tmp_path}: not a prepared data folder" in refused(own_run)


def test_a_data_folder_without_test_sets_is_named(own_run, prepared, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(prepared / "out", folder)
    write_manifest(folder, read_manifest(folder).model_copy(update={"test": ()}))
    config = own_run / "config.toml"
    config.write_text(re.sub(r'^folder = ".*?"', f'folder = "{folder}"', config.read_text(), flags=re.MULTILINE))
    assert f"{folder}: was prepared without test sets; add [[data.test]]" in refused(own_run)


class TestDataFolderThatWasPreparedAnew:
    def test_another_test_set_is_scored(self, own_run, own_project):
        write_other_text(own_project, "more")
        own_project.add("test", source="more.en", target="more.de")
        assert own_project.prepare().is_new
        assert list(evaluate(own_run)["sets"]) == ["test", "more"]

    def test_one_that_the_run_has_learned_is_scored_with_a_warning(self, own_run, own_project):
        num_seen = prepare_with_learned_text(own_project)
        assert num_seen >= 3
        done = septuagint("evaluate", own_run, "--quiet")
        assert done.returncode == 0
        warning = f"saw up to {num_seen} pairs of which a side stands in that text: scores may be too good"
        assert warning in done.stderr.decode()

    def test_other_languages_are_refused(self, own_run, own_project):
        own_project.settings["data.target_language"] = "fr"
        own_project.prepare()
        message = refused(own_run)
        assert f"{own_project.folder}: was prepared anew for en to fr, but the run translates en to de; " in message
        assert "give --source and --reference" in message

    def test_other_training_text_is_refused_also_where_the_vocabulary_is_the_same(self, own_run, own_project):
        write_other_text(own_project)
        own_project.settings["vocabulary.model"] = str(own_run / "vocabulary.model")
        own_project.prepare()
        message = refused(own_run)
        assert f"{own_project.folder}: was prepared anew from training text that is not the run's; " in message
        assert "give --source and --reference" in message

    def test_without_a_record_only_the_same_data_folder_will_do(self, own_run, own_project):
        shutil.rmtree(own_run / "events")
        assert list(evaluate(own_run)["sets"]) == ["test"]
        write_other_text(own_project, "test")
        own_project.prepare()
        problem = f"{own_run / 'events' / 'rank-0.jsonl'} does not tell whether from the same training text"
        assert f"{own_project.folder}: was prepared anew, and {problem}; give --source" in refused(own_run)

    def test_a_run_without_a_checkpoint_says_so(self, own_run, own_project):
        shutil.rmtree(own_run / "checkpoints")
        (own_run / "checkpoints").mkdir()
        assert f"{own_run}: this run has no checkpoint" in refused(own_run)
