"""The translator: one line for each line, whatever it holds, the same in any company, and the same as the network."""

import time
from itertools import islice, pairwise

import numpy as np
import pytest

from septuagint.data.normaliser import normalise
from septuagint.data.vocabulary import EOS
from septuagint.errors import ArtifactError, UserError
from septuagint.inference.artifact import Artifact, seal
from septuagint.inference.beam import translate_ids
from septuagint.inference.search import Hypothesis
from septuagint.inference.spelled import decode_ids
from septuagint.inference.trained import open_trained
from septuagint.inference.translator import MAX_BEAM_SIZE, Translator
from tests.inference.conftest import (
    change_manifest,
    make_network,
    make_obsessed_network,
    open_translator,
    split_ids,
    write_artifact,
)
from tests.training.conftest import toy_text

MEGABYTE = 1 << 20
LONGEST = 128  # pieces of a part
LINES = toy_text(60, seed=7)[0]
NASTY = [
    "red\ud800dog",
    "\udfff",
    "red\x00dog",
    "\x00\x01\x02 dog",
    "\x1b[31mred\x1b[0m",
    "b\ufffd\ufffd",
    "红色的狗 两只猫。",
    "👩‍👩‍👧 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "</s> <unk> <0x0A> <pad>",
    "red\rdog\x0bcat\x85two\u2028three\u2029four\n",
    "\u2581red\u2581dog",
    "\U0010ffff\ue000",
    "a" + "\u0301" * 500,
]
BLANK = ["", " ", "   ", "\t", "\r", " \t\xa0\u3000 ", "\ufeff", "\u200b\u2060\u00ad", "\x00", "\u2581", "\n"]


def texts(translator, *windows, **options):
    return [translation.text for translation in translator.translate(windows, **options)]


def test_every_line_has_one_translation_in_order_however_they_come_in_windows(translator):
    alone = {line: texts(translator, [line])[0] for line in LINES}
    num_changes = sum(alone[line] != alone[following] for line, following in pairwise(LINES))
    assert num_changes > 50  # so lines in another order would be seen
    cuts = [0, 0, 1, 1, 1, 7, 40, 40, 59, 60, 60]
    windows = [LINES[begin:end] for begin, end in pairwise(cuts)]
    assert texts(translator, *windows) == [alone[line] for line in LINES]
    assert texts(translator) == texts(translator, [], []) == []


def test_an_empty_window_lets_out_what_was_translated_so_far(translator):
    taken = []

    def windows():
        for window in (LINES[:3], [], LINES[3:5], LINES[5:9]):
            taken.append(len(window))
            yield window

    found = translator.translate(windows())
    assert len(list(islice(found, 3))) == 3
    assert taken == [3, 0]
    next(found)
    assert taken == [3, 0, 2, 4]  # the next is read while one is translated
    assert len(list(found)) == 5


def test_progress_counts_every_line_once(translator):
    told: list[int] = []
    texts(translator, LINES[:7], [], LINES[7:10], advance=told.append)
    assert sum(told) == 10


@pytest.mark.parametrize("line", BLANK, ids=ascii)
def test_a_line_without_text_has_an_empty_translation(translator, line):
    before, blank, after = translator.translate([[LINES[0], line, LINES[1]]], num_hypotheses=2)
    assert (before.text, after.text) == tuple(texts(translator, LINES[:2]))
    assert [hypothesis.text for hypothesis in blank.hypotheses] == ["", ""]
    assert blank.num_pieces == 0


def test_whatever_a_line_holds_its_translation_is_one_line_of_text(translator):
    found = texts(translator, [*NASTY, LINES[0]])
    assert len(found) == len(NASTY) + 1
    assert found[-1] == texts(translator, LINES[:1])[0]
    for text in found:
        assert text
        text.encode()
        assert text.splitlines() == [text]


@pytest.mark.parametrize("piece", ["<0x0A>", "<0x0D>", "<0x0B>", "<0x00>", "<0x80>", "<unk>"])
def test_a_network_that_writes_a_line_break_or_half_a_character_still_gives_one_line(
    artifact_folder, vocabulary, tmp_path, piece
):
    network = make_obsessed_network(vocabulary, vocabulary.pieces.index(piece))
    folder = write_artifact(tmp_path / "obsessed", artifact_folder, network)
    ((hypothesis,),) = translate_ids(network, split_ids(vocabulary, ["red dog"]), beam_size=1)
    assert {vocabulary.pieces[i] for i in hypothesis.ids} == {piece}
    with open_translator(folder) as translator:
        found = texts(translator, ["red dog", "", "two cat"], beam_size=1)
    assert len(found) == 3
    for text in found:
        text.encode()
        assert "\n" not in text
        assert len(text.splitlines()) <= 1


def test_bytes_for_line_breaks_between_words_become_spaces(translator):
    pieces = ["▁rot", "<0x0A>", "▁Hund", "<0x0D>", "<0x0A>", "▁", "<0xE2>", "<0x80>", "<0xA8>", "a"]
    assert translator.decode(pieces, []) == "rot Hund a"


def test_a_character_that_is_spelled_wrongly_is_that_of_its_own_part_of_the_line(artifact_folder, vocabulary, tmp_path):
    network = make_obsessed_network(vocabulary, vocabulary.pieces.index("<0xF0>"))
    folder = write_artifact(tmp_path / "artifact", artifact_folder, network, max_source_pieces=12)
    with open_translator(folder) as translator:
        assert texts(translator, ["red 🍕. blue 😀."]) == ["🍕 😀"]
        assert texts(translator, ["red dog"]) == [""]


@pytest.fixture(scope="module")
def echo(artifact_folder, vocabulary, tmp_path_factory):
    """A network that writes one word for each part of a line, and nothing more: so parts can be counted."""
    network = make_obsessed_network(vocabulary, vocabulary.pieces.index("▁Hund"))
    folder = write_artifact(
        tmp_path_factory.mktemp("echo") / "artifact",
        artifact_folder,
        network,
        max_source_pieces=LONGEST,
        max_length_ratio=0.0,
        max_length_extra=1,
    )
    with open_translator(folder, num_threads=2) as opened:
        yield opened


class TestLongLines:
    @pytest.mark.parametrize(
        ("unit", "num_bytes"),
        [
            ("Red dog two cat. ", MEGABYTE),
            ("reddogtwocat", MEGABYTE),
            ("red dog ", MEGABYTE // 8),
            ("狗猫。", MEGABYTE // 8),
            ("\x01 狗", MEGABYTE // 8),
            ("a\u0301", MEGABYTE // 8),
        ],
    )
    def test_a_line_of_a_megabyte_is_one_line_with_all_its_parts(self, echo, vocabulary, unit, num_bytes):
        line = unit * (num_bytes // len(unit.encode()) + 1)
        begin = time.monotonic()
        before, long, after = echo.translate([["red dog", line, "two cat"]], beam_size=1)
        assert time.monotonic() - begin < 30
        assert (before.text, after.text) == ("Hund", "Hund")
        num_parts = long.text.count("Hund")
        assert long.text.replace("Hund", "").replace(" ", "") == ""
        num_pieces = len(vocabulary.encode([normalise(line)])[0])
        assert num_pieces / LONGEST <= num_parts  # sentences are parts even where they are short
        assert long.num_pieces == 2 * num_parts

    def test_a_translation_grows_with_its_line(self, echo):
        lengths = [len(text) for text in texts(echo, ["red dog " * 2**power for power in range(8, 13)])]
        ratios = [long / short for short, long in pairwise(lengths)]
        assert all(1.8 < ratio < 2.2 for ratio in ratios), lengths

    def test_sentences_are_translated_as_if_they_were_lines(self, translator, artifact_folder):
        limit = Artifact(artifact_folder).manifest.decode.max_source_pieces
        sentences = [f"{line.capitalize()}." for line in LINES[:20]]
        (found,) = translator.translate([[" ".join(sentences)]])
        parts = list(translator.translate([sentences]))
        assert sum(len(sentence.split()) for sentence in sentences) > limit
        assert found.text == " ".join(part.text for part in parts)
        assert found.num_pieces == sum(part.num_pieces for part in parts)
        mean = sum(part.hypotheses[0].score * part.num_pieces for part in parts) / found.num_pieces
        assert found.hypotheses[0].score == pytest.approx(mean, abs=1e-5)


class TestHypotheses:
    def test_they_are_distinct_and_the_best_comes_first(self, translator):
        for found in translator.translate([LINES], num_hypotheses=5):
            scores = [hypothesis.score for hypothesis in found.hypotheses]
            assert len(scores) == 5
            assert scores == sorted(scores, reverse=True)
            assert len(set(scores)) == 5
            assert len({hypothesis.text for hypothesis in found.hypotheses}) >= 3  # pieces differ, words may not

    def test_the_best_is_the_same_whether_or_not_more_are_asked_for(self, translator):
        best = list(translator.translate([LINES], beam_size=5))
        more = list(translator.translate([LINES], beam_size=5, num_hypotheses=5))
        assert [found.text for found in more] == [found.text for found in best]
        assert all(len(found.hypotheses) == 1 for found in best)

    def test_a_beam_is_never_narrower_than_what_is_asked_for(self, translator):
        (found,) = translator.translate([LINES[:1]], beam_size=2, num_hypotheses=6)
        assert len(found.hypotheses) == 6

    def test_of_long_lines_they_are_in_order_too(self, translator):
        (found,) = translator.translate([["red dog two cat. " * 30]], num_hypotheses=3)
        scores = [hypothesis.score for hypothesis in found.hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({hypothesis.text for hypothesis in found.hypotheses}) == 3

    @pytest.mark.parametrize(
        ("beam_size", "num_hypotheses"),
        [(0, 1), (-1, 1), (MAX_BEAM_SIZE + 1, 1), (4, MAX_BEAM_SIZE + 1), (4, 0), (4, -3)],
    )
    def test_numbers_out_of_range_are_refused_with_the_range(self, translator, beam_size, num_hypotheses):
        with pytest.raises(UserError, match=f"must be 1 to {MAX_BEAM_SIZE}"):
            translator.submit(["red dog"], beam_size=beam_size, num_hypotheses=num_hypotheses)

    def test_the_largest_beam_works(self, translator):
        (found,) = translator.translate([LINES[:1]], num_hypotheses=MAX_BEAM_SIZE)
        assert len(found.hypotheses) == MAX_BEAM_SIZE


def random_lines(vocabulary, number, longest=30):
    """Of random pieces, bytes too: text as no person writes it."""
    random = np.random.default_rng(3)
    drawn = (
        vocabulary.decode(random.integers(EOS + 2, vocabulary.size, random.integers(1, longest))) for _ in range(number)
    )
    return [line for line in map(normalise, drawn) if line]


def assert_same(vocabulary, lines, expected: list[list[Hypothesis]], found):
    differing = []
    for line, source, ours, theirs in zip(lines, split_ids(vocabulary, lines), expected, found, strict=True):
        texts = [normalise(decode_ids(vocabulary, hypothesis.ids, source, ("en", "de"))) for hypothesis in ours]
        scores = [hypothesis.score for hypothesis in ours]
        if [hypothesis.text for hypothesis in theirs.hypotheses] != texts or [
            hypothesis.score for hypothesis in theirs.hypotheses
        ] != pytest.approx(scores, abs=1e-4):
            differing.append((line, list(zip(texts, scores, strict=True)), theirs.hypotheses))
    assert not differing, f"{len(differing)} of {len(lines)} lines differ, such as {differing[0]}"


class TestTheNetworkAndItsArtifact:
    @pytest.mark.parametrize("beam_size", [1, 4])
    def test_say_the_same_of_validation_text(self, run_folder, translator, vocabulary, prepared, beam_size):
        network = open_trained(run_folder).network()
        lines = [line for name in ("valid", "test") for line in (prepared / f"{name}.en").read_text().splitlines()]
        expected = translate_ids(network, split_ids(vocabulary, lines), beam_size=beam_size, num_hypotheses=beam_size)
        found = translator.translate([lines], beam_size=beam_size, num_hypotheses=beam_size)
        assert_same(vocabulary, lines, expected, found)

    @pytest.mark.parametrize("preset", ["base", "modern", "fast"])
    def test_say_the_same_of_random_pieces_with_random_weights(self, artifact_folder, vocabulary, tmp_path, preset):
        network = make_network(vocabulary, preset)
        folder = write_artifact(tmp_path / preset, artifact_folder, network, max_source_pieces=1000)
        lines = random_lines(vocabulary, 60)
        expected = translate_ids(network, split_ids(vocabulary, lines), beam_size=3, num_hypotheses=2)
        with open_translator(folder) as translator:
            assert_same(vocabulary, lines, expected, translator.translate([lines], beam_size=3, num_hypotheses=2))


class TestCompany:
    """Sentences that are translated side by side must not change each other."""

    def test_a_line_has_the_same_translation_alone_and_among_others(self, translator, vocabulary):
        lines = [*LINES, *random_lines(vocabulary, 40), *NASTY, "red dog two cat. " * 100]
        together = list(translator.translate([lines], num_hypotheses=2))
        for line, found in zip(lines, together, strict=True):
            (alone,) = translator.translate([[line]], num_hypotheses=2)
            assert [hypothesis.text for hypothesis in found.hypotheses] == [h.text for h in alone.hypotheses], line
            assert found.hypotheses[0].score == pytest.approx(alone.hypotheses[0].score, abs=1e-4)

    def test_one_that_does_not_end_is_stopped_at_its_own_limit(self, artifact_folder, vocabulary, tmp_path):
        network = make_obsessed_network(vocabulary, vocabulary.pieces.index("▁Hund"))
        folder = write_artifact(tmp_path / "obsessed", artifact_folder, network)
        lines = ["red", "red dog two", "red dog two cat sun"]
        limits = [2 * len(ids) + 10 for ids in split_ids(vocabulary, lines)]
        assert len(set(limits)) == 3
        for beam_size in (1, 4):
            with open_translator(folder) as translator:
                found = texts(translator, lines, beam_size=beam_size)
            assert [len(text.split()) for text in found] == limits

    def test_threads_change_nothing(self, artifact_folder, translator):
        with open_translator(artifact_folder, num_threads=2) as bulk:
            assert texts(bulk, LINES) == texts(translator, LINES)


@pytest.mark.parametrize("kind", ["huggingface", "argos"])
def test_an_export_for_other_programs_is_refused_with_the_way_out(own_artifact, kind):
    change_manifest(own_artifact, kind=kind)
    with pytest.raises(ArtifactError, match=f"exported as {kind}.*export the run as ctranslate2") as caught:
        Translator(Artifact(own_artifact))
    assert str(own_artifact) in str(caught.value)


def test_a_model_that_ctranslate2_cannot_load_is_named(artifact_folder, vocabulary, tmp_path):
    folder = write_artifact(tmp_path / "artifact", artifact_folder, make_network(vocabulary))
    manifest = Artifact(folder).manifest
    (folder / "model" / "model.bin").write_bytes(b"no model")
    (folder / "artifact.json").unlink()
    seal(folder, manifest.model_dump(exclude={"files"}))
    with pytest.raises(ArtifactError, match="CTranslate2 cannot load it") as caught:
        open_translator(folder)
    assert str(folder / "model") in str(caught.value)


def test_an_unknown_device_is_refused_with_the_known_ones(artifact_folder):
    with pytest.raises(UserError, match=r"--device tpu: must be auto, cpu or cuda"):
        open_translator(artifact_folder, device="tpu")
