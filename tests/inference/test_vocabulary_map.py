"""The vocabulary map: what a source piece can become, as training text shows it."""

import numpy as np
import pytest

from septuagint.data.sentences import Sentences, offsets_of
from septuagint.data.vocabulary import EOS
from septuagint.errors import CheckpointError
from septuagint.inference import vocabulary_map
from septuagint.inference.artifact import MODEL
from septuagint.inference.export import export
from septuagint.inference.model_card import _map_limit
from septuagint.inference.vocabulary_map import VOCABULARY_MAP, learn_vocabulary_map, write_vocabulary_map
from tests.inference.conftest import QUIET, copy_run, open_translator
from tests.inference.test_export import forget_data

WORDS = range(10, 60)


def sentences(rows):
    ids = [[*row, EOS] for row in rows]
    return Sentences(ids=np.concatenate(ids).astype(np.uint16), offsets=offsets_of(np.array([len(row) for row in ids])))


def word_for_word(num_pairs):
    """Each word n becomes 100 + n, in another order, and 200 is everywhere."""
    generator = np.random.default_rng(1)
    rows = [generator.choice(WORDS, generator.integers(2, 9), replace=False) for _ in range(num_pairs)]
    return sentences(rows), sentences([[200, *generator.permutation(row) + 100] for row in rows])


def test_a_piece_allows_what_it_was_translated_to_first_of_all(monkeypatch):
    monkeypatch.setattr(vocabulary_map, "_NUM_KEPT", 2)
    monkeypatch.setattr(vocabulary_map, "_PAIRS_AT_A_TIME", 70)
    _, allowed = learn_vocabulary_map(*word_for_word(400), 300)
    for word in WORDS:
        assert word in allowed[word]  # names and numbers stay as they are
        assert word + 100 in allowed[word]
        assert len(allowed[word]) <= 3
    assert not any(row for piece, row in enumerate(allowed) if piece not in WORDS)  # what was never seen says nothing


def test_model_1_explains_away_what_is_only_near(monkeypatch):
    """20 always comes with 10 and never alone; what 10 alone becomes is not meant by 20."""
    monkeypatch.setattr(vocabulary_map, "_NUM_KEPT", 1)
    sources = [[10, 20], [10, 30], [10], [10, 20, 30], [30]] * 20
    targets = [[110, 120], [130, 110], [110], [120, 110, 130], [130]] * 20
    _, allowed = learn_vocabulary_map(sentences(sources), sentences(targets), 200)
    assert [allowed[word] for word in (10, 20, 30)] == [[10, 110], [20, 120], [30, 130]]


def test_frequent_pieces_are_always_allowed(monkeypatch):
    monkeypatch.setattr(vocabulary_map, "_NUM_FREQUENT", 3)
    frequent, _ = learn_vocabulary_map(*word_for_word(100), 300)
    assert set(frequent[:2]) == {200, EOS}
    assert len(frequent) == 3


def test_text_without_a_link_makes_an_empty_map():
    frequent, allowed = learn_vocabulary_map(sentences([[], [5]]), sentences([[6], []]), 20)
    assert frequent == [EOS, 6]
    assert not any(allowed)


def test_it_is_written_as_ctranslate2_reads_it(tmp_path):
    write_vocabulary_map(tmp_path / "vmap.txt", ["a", "▁b", "c"], [2, 0], [[], [0, 1], []])
    assert (tmp_path / "vmap.txt").read_text(encoding="utf-8") == "\tc a\n▁b\ta ▁b\n"


def test_an_artifact_with_a_map_translates_with_it(run_folder, tmp_path, monkeypatch):
    lines = ["red dog", "the cat", ""]
    made = export(run_folder, tmp_path / "mapped", quantization="float32", vocabulary_map=True, report=QUIET)
    assert made.manifest.decode.vocabulary_map
    assert "bleu_change" in made.manifest.checks
    assert f"{MODEL}/{VOCABULARY_MAP}" in made.manifest.files
    assert "vocabulary map" in (made.folder / "README.md").read_text(encoding="utf-8")
    with open_translator(made.folder) as translator:
        assert len(list(translator.translate([lines]))) == 3
    # A map that allows one piece only shows that it is looked at.
    monkeypatch.setattr("septuagint.inference.export.learn_vocabulary_map", lambda *_: ([7], []))
    made = export(run_folder, tmp_path / "one", quantization="float32", vocabulary_map=True, report=QUIET)
    with open_translator(made.folder) as translator:
        (found,) = translator.translate([["red dog"]], beam_size=1)
        pieces = set(translator._vocabulary.encode_pieces([found.text])[0])
    assert len(pieces) <= 2


def test_other_artifacts_have_none(run_folder, tmp_path):
    made = export(run_folder, tmp_path / "plain", quantization="float32", report=QUIET)
    assert not made.manifest.decode.vocabulary_map
    assert not (made.folder / MODEL / VOCABULARY_MAP).exists()
    assert _map_limit(made.manifest) == []


def test_without_training_text_there_is_no_map(run_folder, tmp_path):
    run = copy_run(run_folder, tmp_path / "run")
    forget_data(run)
    with pytest.raises(CheckpointError, match="gone: the training text cannot be read"):
        export(run, tmp_path / "mapped", vocabulary_map=True, report=QUIET)
    assert not (tmp_path / "mapped").exists()
