"""Seeds are the strings that a search letter by letter would find, counted as often as their words occur."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from septuagint.data import seeds
from septuagint.data.seeds import find_seeds


def search(word_counts: dict[str, int]) -> dict[str, int]:
    """Every string of two letters or more, but those that a longer one holds as often, in front."""
    totals: Counter[str] = Counter()
    for word, count in word_counts.items():
        for begin in range(len(word) + 1):
            for end in range(begin + 1, len(word) + 2):
                totals[f"_{word}"[begin:end]] += count
    longer: Counter[str] = Counter()
    for string, total in totals.items():
        longer[string[:-1]] = max(longer[string[:-1]], total)
    return {
        string: total
        for string, total in totals.items()
        if 2 <= len(string) <= 16 and total > 1 and total > longer[string]
    }


@given(st.dictionaries(st.text("ab日😀", min_size=1, max_size=18), st.integers(1, 9), min_size=1, max_size=12))
def test_they_are_what_a_search_finds(word_counts):
    found = list(find_seeds(word_counts, "_"))
    assert dict(found) == search(word_counts)
    assert len(dict(found)) == len(found)
    covered = [len(string) * total for string, total in found]
    assert covered == sorted(covered, reverse=True)


def test_a_frequent_word_that_begins_no_other_is_one():
    assert dict(find_seeds({".": 9, "river": 1}, "_")) == {"_.": 9}


def test_those_that_cover_least_are_left_out(monkeypatch):
    words = {"house": 5, "mouse": 3, "louse": 1}
    everything = list(find_seeds(words, "_"))
    monkeypatch.setattr(seeds, "_MAX_SEEDS", 3)
    assert list(find_seeds(words, "_")) == everything[:3]


def test_without_words_there_are_none():
    assert list(find_seeds({}, "_")) == []


def test_how_many_letters_are_looked_at_at_a_time_changes_nothing(monkeypatch):
    words = {word: number for number, word in enumerate("house mouse louse a.b 日本 日本語 ...".split(), start=1)}
    everything = dict(find_seeds(words, "_"))
    assert everything == search(words)
    for number in (1, 2, 7):
        monkeypatch.setattr(seeds, "_PLACES_AT_A_TIME", number)
        assert dict(find_seeds(words, "_")) == everything
