"""The sample is even, depends on the text and the seed alone, and grows with its share."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septuagint.config import VocabularyConfig
from septuagint.data import sample
from septuagint.data.sample import SampledPart, _draw, count_words, train_vocabulary_on_sample
from septuagint.data.vocabulary import Vocabulary


@pytest.fixture
def cleaned(project):
    """The cleaned parts of a small project, with one pair marked as a duplicate."""
    project.settings["filters.duplicates"] = False
    project.add_text("one", 300)
    project.add_text("two", 100, seed=2)
    project.prepare()
    folders = [project.folder / "work" / "clean" / name for name in ("train-one", "train-two")]
    return [
        SampledPart(folder=folder, index=0, is_duplicate=np.packbits(np.arange(count) == 0).tobytes())
        for folder, count in zip(folders, (300, 100), strict=True)
    ]


def test_a_share_of_one_counts_every_word_of_every_pair_but_duplicates(cleaned, text_of):
    expected: Counter[str] = Counter()
    for num_lines, seed in ((300, 1), (100, 2)):
        sources, targets = text_of(num_lines, seed)
        for line in sources[1:] + targets[1:]:
            expected.update(line.split())
    assert count_words(cleaned, 1.0, seed=1) == expected


def test_order_of_the_parts_does_not_matter(cleaned):
    assert count_words(cleaned, 0.3, seed=1) == count_words(cleaned[::-1], 0.3, seed=1)


def test_a_smaller_share_is_part_of_a_larger_one(cleaned):
    assert count_words(cleaned, 0.2, seed=1) < count_words(cleaned, 0.6, seed=1)


def test_another_seed_draws_other_pairs(cleaned):
    assert count_words(cleaned, 0.3, seed=1) != count_words(cleaned, 0.3, seed=2)


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0, 1), seed=st.integers(0, 2**40))
def test_the_draw_is_even(share, seed):
    hashes = np.random.default_rng(1).integers(0, 2**64, 20_000, np.uint64)
    assert abs(_draw(hashes, share, seed).mean() - share) < 0.02


def test_a_sample_with_too_many_different_words_is_made_smaller(cleaned, tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "MAX_UNIQUE_CHARACTERS", 2000)
    trained = train_vocabulary_on_sample(cleaned, 20_000, VocabularyConfig(size=310), tmp_path)
    assert Vocabulary(trained.model).size == 310
