"""The normaliser takes away what nobody sees, and nothing else."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septuagint.data.normaliser import normalise

MODEST = settings(max_examples=300, deadline=None)

# Characters that change under NFC, join, separate or cannot be seen, beside ordinary ones.
TRICKY = (
    "ab \t\r\x00\x0b\x1c\x7f\x85\xa0\xad\u0300\u0323\u034f\u061c\u0627\u0915\u093c\u094d\u1100\u1161\u1160\u1e9b\u1f71"
    "\u1fef\u180e\u2000\u200b\u200c\u200d\u200e\u2028\u202e\u2060\u2126\u2581\u2adc\u3000\ufb1d\ufe0f\ufeff\ufffb\U0001f469"
)
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text(st.sampled_from(TRICKY), max_size=12),
)


@MODEST
@given(TEXT)
def test_normalising_twice_changes_nothing_more(text):
    assert normalise(normalise(text)) == normalise(text)


@MODEST
@given(TEXT)
def test_result_is_composed_and_has_no_control_characters_or_odd_spaces(text):
    result = normalise(text)
    assert unicodedata.is_normalized("NFC", result)
    assert not [character for character in result if unicodedata.category(character) == "Cc"]
    assert result.split() == result.split(" ") or result == ""


@MODEST
@given(TEXT)
def test_visible_text_is_kept(text):
    """Letters, marks, digits, signs and punctuation stay, in their order."""

    def visible(line: str) -> list[str]:
        kept = [c for c in unicodedata.normalize("NFD", line) if unicodedata.category(c)[0] in "LNPS"]
        return [c for c in kept if c not in unseen]

    unseen = "\u115f\u1160\u2581"  # the Hangul fillers are letters that nobody sees, SentencePiece's sign is a space
    assert visible(normalise(text)) == visible(text.translate(dict.fromkeys(map(ord, unseen))))


@MODEST
@given(st.text(st.sampled_from("ab \t\r\u2028\xa0\u3000\x85\x0b"), max_size=20))
def test_words_are_those_of_split(text):
    assert normalise(text) == " ".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "m² and ½ and ﬁ and ①",
        "„Gänsefüßchen“ – Gedankenstrich…",
        "می‌خواهم",  # Persian: the joiner is part of the spelling
        "क्‍ष और ക്‍",  # Devanagari and Malayalam with joiners
        "👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 ❤️‍🔥",
        "日本語。中文,한국어",
        "Việt Nam",
    ],
)
def test_text_with_nothing_invisible_is_left_alone(text):
    assert normalise(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ufeffText", "Text"),
        ("Zu\u00adsam\u00admen", "Zusammen"),
        ("a\u200db\u200cc", "abc"),
        ("\u0591\u200c\u094d\u200c", "\u094d\u0591"),  # the second joiner is stray once the first is gone
        ("\u202eabc\u202c", "abc"),
        ("e\u0301", "é"),
        ("1\u202f000\u00a0€", "1 000 €"),
        ("  a \r", "a"),
        ("\u2581a\u2581\u2581b \u2581", "a b"),
        ("\x00\x01", ""),
    ],
)
def test_debris_is_removed(text, expected):
    assert normalise(text) == expected
