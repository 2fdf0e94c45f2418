"""What a translation spells is text, and as far as the source has it, the right one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septuagint.config import VocabularyConfig
from septuagint.data.vocabulary import Vocabulary, train_vocabulary
from septuagint.inference.spelled import decode_ids, decode_pieces, mend_spelling


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    words = ["red", "blue", "rot", "blau", "and", "und", "dog", "Hund", "cat", "Katze"]
    return Vocabulary(train_vocabulary(dict.fromkeys(words, 10), VocabularyConfig(size=300)).model)


def spell(content: bytes) -> list[str]:
    return [f"<0x{byte:02X}>" for byte in content]


PIZZA, SMILE, HAN = spell("🍕".encode()), spell("😀".encode()), spell("䟍".encode())


@pytest.mark.parametrize(
    ("source", "found", "mended"),
    [
        (["▁red", "▁", *SMILE], ["▁rot", "▁", *SMILE[:3]], ["▁rot", "▁", *SMILE]),  # cut off
        (["▁red", "▁", *SMILE], ["▁rot", "▁", *spell("»\ufffd«".encode())], ["▁rot", "▁", *SMILE]),
        ([*PIZZA, "▁", *SMILE], [*spell(b"\x9f"), "▁", *spell(b"\xf0")], [*PIZZA, "▁", *SMILE]),
        ([*PIZZA, "▁", *SMILE], [*PIZZA, "▁", *spell(b"\xf0")], [*PIZZA, "▁", *SMILE]),
        ([*PIZZA, "▁", *SMILE], [*spell(b"\xf0"), "▁", *PIZZA], [*SMILE, "▁", *PIZZA]),  # another order
        (["▁red"], ["▁rot", *spell(b"\xff")], ["▁rot"]),  # out of nowhere
        ([*SMILE], [*spell(b"\xf0"), "▁und", *spell(b"\xf0")], [*SMILE, "▁und"]),  # twice
        (["▁red"], ["▁rot", *spell("ż".encode())], ["▁rot", *spell("ż".encode())]),  # right, if it is not the source's
        (["▁red"], ["▁rot", *HAN], ["▁rot", *HAN]),  # nothing is missing
        ([*PIZZA, "▁", *SMILE], [*HAN, "▁", *spell(b"\xf0")], [*PIZZA, "▁", *SMILE]),  # whole, and not what was meant
        ([*SMILE], [*spell("☃".encode()), "▁", *HAN], [*SMILE, "▁", *HAN]),  # no letter; then nothing is missing
        ([*SMILE], [*spell("ż".encode())], [*spell("ż".encode())]),  # a letter that the language is written with
        ([*spell("\ufffd".encode())], [*spell("\ufffd".encode())], [*spell("\ufffd".encode())]),  # it was told so
    ],
)
def test_what_is_no_character_becomes_that_of_the_source(source, found, mended):
    assert mend_spelling(found, source, ("en", "de")) == mended


def test_letters_of_the_languages_may_be_the_translation_of_one_another():
    for language in ("ja", "zh-Hant", "xx"):  # of the last nobody knows how it is written
        assert mend_spelling(HAN, SMILE, ("en", language)) == HAN
    assert mend_spelling(spell("ż".encode()), SMILE, ("en", "ja")) == SMILE
    pound = spell("£".encode())
    for language in ("ja", "zh-Hant", "xx"):
        assert mend_spelling(pound, [*HAN, "▁", *HAN], (language, "en")) == pound
        assert mend_spelling(pound, [*HAN, "▁", *SMILE], (language, "en")) == SMILE
        assert mend_spelling(pound[:1], [*HAN, "▁", *SMILE], (language, "en")) == HAN  # no character: what comes first
    assert mend_spelling(pound, HAN, ("en", "de")) == HAN
    assert mend_spelling(HAN, spell("Ż".encode()), ("en", "de")) == spell("Ż".encode())  # both write it


PIECES = st.lists(
    st.sampled_from(["▁red", "▁und", "▁", *spell(bytes(range(0x80, 0x100))), *PIZZA, *SMILE]), max_size=12
)


LANGUAGES = st.tuples(*[st.sampled_from(["de", "ja", "xx"])] * 2)


@given(pieces=PIECES, source=st.text(alphabet="red 🍕😀ż你", max_size=8), languages=LANGUAGES)
def test_no_translation_has_more_broken_characters_than_its_source(vocabulary, pieces, source, languages):
    (source_pieces,) = vocabulary.encode_pieces([source])
    text = decode_pieces(vocabulary, pieces, source_pieces, languages)
    assert "\ufffd" not in text
    mended = mend_spelling(pieces, source_pieces, languages)
    assert mend_spelling(mended, source_pieces, languages) == mended


@settings(max_examples=50)
@given(text=st.text(max_size=20), source=st.text(max_size=20), languages=LANGUAGES)
def test_text_that_is_right_stays_as_it_is_by_ids_and_by_pieces(vocabulary, text, source, languages):
    ids, source_ids = (vocabulary.encode([line])[0] for line in (text, source))
    pieces, source_pieces = vocabulary.encode_pieces([text, source])
    by_ids = decode_ids(vocabulary, ids, source_ids, languages)
    assert decode_pieces(vocabulary, pieces, source_pieces, languages) == by_ids
    if "\ufffd" not in text and not vocabulary.has_bytes(source_ids):
        assert by_ids == vocabulary.decode(ids)
    assert decode_ids(vocabulary, ids, ids, languages) == vocabulary.decode(ids)  # all of the source is there


def test_ids_are_mended_as_pieces_are(vocabulary):
    (source_ids, _), (ids, _) = vocabulary.encode(["red 😀"]), vocabulary.encode(["rot 😀"])
    broken = np.delete(ids, -2)  # the last byte; behind it is EOS
    assert "\ufffd" in vocabulary.decode(broken)
    assert decode_ids(vocabulary, broken, source_ids, ("en", "de")) == "rot 😀"
