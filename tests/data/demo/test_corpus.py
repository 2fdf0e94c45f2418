"""The written corpus: complete or not there, the same on every machine, its parts disjoint, its words all frequent."""

import hashlib
import json
import re
import time
from collections import Counter
from itertools import islice

import pytest

from septuagint.data.demo import adjectives, adverbs, english, german, nouns, verbs
from septuagint.data.demo.corpus import generate_pairs, sentence_key, split_pairs, write_demo_corpus
from septuagint.data.demo.lexicon import Adjective

FILES = [f"{split}.{language}" for split in ("train", "valid", "test") for language in ("en", "de")]
SMALL = {"num_train": 300, "num_valid": 20, "num_test": 20}


@pytest.fixture(scope="module")
def splits():
    return split_pairs({"train": 30_000, "valid": 500, "test": 500}, seed=1)


def digest(folder):
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in FILES)).hexdigest()


def test_same_seed_gives_the_same_bytes_for_ever(tmp_path):
    write_demo_corpus(tmp_path, **SMALL, seed=3)
    assert digest(tmp_path) == "35bb90724a18003785e2bb91b9d5316a85df0903e535f9b33c74a4fe8cf1ec43"


def test_another_seed_gives_another_corpus(tmp_path):
    write_demo_corpus(tmp_path / "one", **SMALL, seed=1)
    write_demo_corpus(tmp_path / "two", **SMALL, seed=2)
    assert digest(tmp_path / "one") != digest(tmp_path / "two")


def test_files_are_parallel_lines_of_utf8(tmp_path):
    write_demo_corpus(tmp_path, **SMALL)
    for split, size in (("train", 300), ("valid", 20), ("test", 20)):
        for language in ("en", "de"):
            content = (tmp_path / f"{split}.{language}").read_bytes()
            assert content.count(b"\n") == size
            assert content.endswith(b"\n")
            assert b"\r" not in content
            assert all(line.strip() == line for line in content.decode("utf-8").splitlines())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*FILES, "demo.json"])


def test_complete_folder_is_left_alone(tmp_path):
    write_demo_corpus(tmp_path, **SMALL)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    write_demo_corpus(tmp_path, **SMALL)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", [*FILES, "demo.json"])
@pytest.mark.parametrize("damage", [b"", b"[1, 2]\n", None])
def test_damaged_or_missing_file_is_written_again(tmp_path, name, damage):
    write_demo_corpus(tmp_path, **SMALL)
    expected = digest(tmp_path)
    if damage is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(damage)
    write_demo_corpus(tmp_path, **SMALL)
    assert digest(tmp_path) == expected


def test_other_settings_replace_the_corpus(tmp_path):
    write_demo_corpus(tmp_path, **SMALL, seed=1)
    write_demo_corpus(tmp_path, **SMALL, seed=2)
    assert json.loads((tmp_path / "demo.json").read_text(encoding="utf-8"))["settings"]["seed"] == 2


def test_no_sentence_occurs_twice_on_either_side(splits):
    pairs = [pair for split in splits.values() for pair in split]
    assert len(pairs) == 31_000
    for side in (0, 1):
        assert len({sentence_key(pair[side]) for pair in pairs}) == len(pairs)


def test_key_ignores_case_spaces_and_punctuation():
    assert sentence_key("Is Anna at home?") == sentence_key("is  Anna at home!")
    assert sentence_key("Der Saft.") != sentence_key("Der Sattel.")


def test_splits_are_drawn_alike(splits):
    def mean_length(pairs):
        return sum(len(pair[0].split()) for pair in pairs) / len(pairs)

    assert abs(mean_length(splits["train"]) - mean_length(splits["test"])) < 0.6


def test_words_of_the_test_set_were_seen_in_training(splits):
    for side in (0, 1):
        seen = {word.lower() for pair in splits["train"] for word in re.findall(r"[\w'-]+", pair[side])}
        words = [word.lower() for pair in splits["test"] for word in re.findall(r"[\w'-]+", pair[side])]
        assert sum(word not in seen for word in words) <= 0.001 * len(words)


@pytest.fixture(scope="module")
def text(splits):
    """Both sides of the training text in lower case, words separated by single spaces."""
    return tuple(
        " " + " ".join(" ".join(re.findall(r"[\w'-]+", pair[side].lower())) + " ." for pair in splits["train"]) + " "
        for side in (0, 1)
    )


def occurrences(text, forms):
    return sum(text.count(f" {form.lower()} ") for form in set(forms))


def test_every_noun_is_frequent_enough_to_be_learned(text):
    for noun in nouns.all_nouns():
        english_forms = {noun.english, english.plural(noun), noun.english + "'s"}
        german_forms = {
            german.decline_noun(noun, case, is_plural=is_plural)
            for case in ("nominative", "accusative", "dative", "genitive")
            for is_plural in ((False, True) if noun.german_plural else (False,))
        }
        assert occurrences(text[0], english_forms) >= 15, noun.english
        assert occurrences(text[1], german_forms) >= 15, noun.german


def test_every_verb_is_frequent_enough_to_be_learned(text):
    for verb in verbs.all_verbs():
        base, _, tail = verb.english.partition(" ")
        forms = {base, english.third_person(base), english.past(base), english.past_participle(base)}
        forms.add(english.present_participle(base))
        assert occurrences(text[0], {f"{form} {tail}".strip() for form in forms}) >= 15, verb.english


def test_every_adjective_and_adverb_is_frequent_enough_to_be_learned(text):
    for adjective in (value for value in vars(adjectives).values() if isinstance(value, Adjective)):
        forms = {adjective.english, english.comparative(adjective), english.superlative(adjective)}
        assert occurrences(text[0], forms) >= 15, adjective.english
    groups = (
        *(
            adverbs.CITIES,
            adverbs.COUNTRIES,
            adverbs.LANGUAGES,
            adverbs.SPORTS,
            adverbs.INSTRUMENTS,
            adverbs.FREQUENCIES,
        ),
        *(adverbs.PAST_TIMES, adverbs.FUTURE_TIMES, adverbs.PAST_LONG_TIMES, adverbs.FUTURE_LONG_TIMES),
        *(adverbs.HABIT_TIMES, adverbs.ON_WEEKDAY, adverbs.IN_MONTH),
    )
    for adjunct in (adjunct for group in groups for adjunct in group):
        assert occurrences(text[0], {adjunct.english}) >= 15, adjunct.english
        assert occurrences(text[1], {adjunct.german}) >= 15, adjunct.german
    for name in adverbs.WOMEN + adverbs.MEN:
        assert occurrences(text[0], {name.name, name.name + "'s"}) >= 15, name.name


def test_every_number_word_of_english_is_frequent_enough_to_be_learned(text):
    counts = Counter(re.split(r"[ -]", text[0]))
    for word in [*english.UNITS[1:], *english.TENS[2:], "hundred", "thousand"]:
        assert counts[word] >= 15, word


def test_generation_is_fast():
    start = time.process_time()
    split_pairs({"train": 30_000, "valid": 500, "test": 500}, seed=2)
    assert time.process_time() - start < 8


def test_pairs_go_on_without_end_and_repeat_for_a_seed():
    assert list(islice(generate_pairs(9), 50)) == list(islice(generate_pairs(9), 50))
    assert len(list(islice(generate_pairs(9), 40_000))) == 40_000
