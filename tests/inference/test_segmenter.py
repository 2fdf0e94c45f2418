"""Long lines are cut where they mean least harm, and nothing of them is lost."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from septuagint.inference.segmenter import Segment, join_translations, split_text

# Letters, marks and signs that decide something, more often than chance would give them.
TEXTS = st.text(
    st.sampled_from("aB3 .,!?…\"'()。、？」है्กำ\u0301\u200d\U0001f1e9\U0001f469—;:") | st.characters(), max_size=120
)


def at_most(size: int):
    return lambda text: len(text) <= size


def texts_of(text: str, size: int) -> list[str]:
    return [segment.text for segment in split_text(text, at_most(size))]


def sentences_of(text: str) -> list[str]:
    """Cut at sentences only: each of them is short enough."""
    return [segment.text for segment in split_text(text, lambda part: part != text)]


def whole(segments: list[Segment]) -> str:
    return "".join(segment.separator + segment.text for segment in segments)


@given(TEXTS, st.integers(0, 40))
def test_segments_end_to_end_are_the_text(text, size):
    segments = split_text(text, at_most(size))
    assert whole(segments) == text
    assert {segment.separator for segment in segments} <= {"", " "}
    assert all(segment.text for segment in segments) or not text


@given(TEXTS, st.integers(0, 40))
def test_every_segment_is_short_enough_or_a_single_character(text, size):
    assert all(len(part) <= max(size, 1) for part in texts_of(text, size))


@given(TEXTS, st.integers(1, 8))
def test_segments_are_short_enough_where_a_start_can_need_more_pieces_than_the_whole(text, size):
    def is_short_enough(part: str) -> bool:
        return len(part) + 5 * part.endswith("a") <= size

    segments = split_text(text, is_short_enough)
    assert whole(segments) == text
    assert all(is_short_enough(segment.text) or len(segment.text) == 1 for segment in segments)


@given(TEXTS)
def test_text_that_is_short_enough_is_left_alone(text):
    assert split_text(text, at_most(len(text))) == [Segment(text=text, separator="")]


@pytest.mark.parametrize(
    "text",
    [
        "It rained. | We stayed at home! | Why? | Nobody knew… | Then it stopped.",
        "He said “no.” | She left. | «Pourquoi ?» | Il est parti (hier). | ¿Qué pasa? | ¡Nada! | “Fine.”",
        "Er kam um 10 Uhr. | 20 Leute warteten. | „Endlich!“ | Ärger gab es nicht.",
        "Дождь шёл весь день. | Мы остались дома.",
        "წვიმდა. | სახლში დავრჩით.",
        "今日は雨です。|家にいました！|本当？|「はい。」|そうです。",
        "他走了。|她留下。",
        "هل جاء؟ | نعم جاء. | ثم ذهب.",
        "بارش ہوئی۔ | ہم گھر پر رہے۔",
        "बारिश हुई। | हम घर पर रहे।|फिर सूरज निकला॥",
        "ዝናብ ዘነበ። | እኛ ቤት ቆየን።",
        "ភ្លៀង។|យើង។",
        "မိုးရွာသည်။ | အိမ်မှာနေသည်။",
        "Անձրեւ էր։ | Մենք տանն էինք։",
    ],
)
def test_lines_are_cut_after_sentences(text):
    expected = text.replace(" | ", "|").split("|")
    assert sentences_of(text.replace("|", "").replace("  ", " ")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Mr. Smith, Dr. Jones and Prof. Miller met J. R. Smith of the U.S. Navy on Jan. 5, i.e. Monday, at No. 10",
        "Am 3. Oktober, d. h. Montag, z. B. Berlin, z.B. Bonn bzw. Köln, Nr. 5, vgl. Abb. 3 und Fr. Müller",
        "La Sra. García y el Sr. López, p. ex. Ana, vol. II, pág. 3, art. 5",
        "It costs 3.5 or 1.000.000 at example.com. but not 5!",
        "Yahoo! is a company… and so on. of course",
    ],
)
def test_dots_of_abbreviations_initials_and_numbers_end_no_sentence(text):
    assert not any(part.endswith((".", "!")) for part in texts_of(text, len(text) - 1)[:-1])


def test_a_sentence_that_is_too_long_is_cut_after_clauses_then_at_spaces_then_between_characters():
    assert texts_of("one two, three four five six seven", 12) == ["one two,", "three four", "five six", "seven"]
    assert texts_of("eins (zwei, drei); vier fünf", 20) == ["eins (zwei, drei);", "vier fünf"]
    assert texts_of("猫が来て、犬が去り、鳥が鳴いた", 10) == ["猫が来て、犬が去り、", "鳥が鳴いた"]
    assert texts_of("see 1,000,000 and 12:30", 9) == ["see", "1,000,000", "and 12:30"]
    assert texts_of("abcdefgh ij", 5) == ["abcde", "fgh", "ij"]


def test_only_sentences_that_are_too_long_are_cut_further():
    text = "Short, one. This one, however, is long. Short, two."
    assert texts_of(text, 20) == ["Short, one.", "This one, however,", "is long.", "Short, two."]


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301\u0323",
        "क्षि",
        "กำ",
        "\U0001f469\u200d\U0001f4bb",
        "\U0001f44b\U0001f3fd",
        "\U0001f1e9\U0001f1ea",
        "\ud83d\ude00",
    ],
)
def test_what_a_reader_takes_for_one_character_is_not_cut(cluster):
    for size in range(len(cluster), 3 * len(cluster)):
        assert all(part.replace(cluster, "") == "" for part in texts_of(20 * cluster, size))


@pytest.mark.parametrize(
    ("unit", "limit"),
    [
        ("It was a dark and stormy night, and nobody came. ", 30),
        ("word ", 500),
        ("word, ", 500),
        ("x", 500),
        ("x", 20_000),
        ("漢", 30),
        ("a, " + 500 * "b", 400),
        ("a " + 500 * "b", 400),
        ("a, b " + 500 * "c", 507),
        ("e" + 40 * "\u0301", 25),
        ("\U0001f1e9", 500),
        (". ", 100),
        ("Mr. ", 100),
        ("。", 100),
        (")", 100),
    ],
)
def test_a_line_of_a_million_characters_costs_time_in_proportion(unit, limit):
    text = (unit * (1_000_000 // len(unit))).strip()
    num_characters_tested = 0

    def is_short_enough(part: str) -> bool:
        nonlocal num_characters_tested
        num_characters_tested += len(part)
        return len(part) <= limit

    began = time.perf_counter()
    segments = split_text(text, is_short_enough)
    seconds = time.perf_counter() - began
    assert whole(segments) == text
    assert num_characters_tested <= 20 * len(text)
    assert seconds < 10  # well under one here; in proportion to the square it would be hours


def test_translations_are_joined_as_the_source_was():
    segments = split_text("It rained. We stayed.", at_most(12))
    assert join_translations(segments, ["Es regnete.", "Wir blieben."], "de") == "Es regnete. Wir blieben."
    assert join_translations(segments, ["下雨了。", "我们留下了。"], "zh") == "下雨了。我们留下了。"
    assert join_translations(segments, ["", "Wir blieben."], "de") == "Wir blieben."
    assert join_translations(segments, ["Es regnete.", ""], "de") == "Es regnete."


def test_a_language_with_spaces_gets_them_where_the_source_has_none():
    segments = split_text("今日は雨です。家にいました。", at_most(8))
    assert join_translations(segments, ["It rained.", "I stayed."], "en") == "It rained. I stayed."
    segments = split_text("東京都千代田区", at_most(4))
    assert join_translations(segments, ["Tokyo", "Chiyoda"], "en") == "Tokyo Chiyoda"


def test_a_long_word_that_was_cut_is_one_word_again():
    segments = split_text(20 * "ab", at_most(30))
    assert join_translations(segments, [segment.text for segment in segments], "de") == 20 * "ab"


@given(TEXTS, st.integers(1, 40))
def test_joining_loses_no_translation(text, size):
    segments = split_text(text, at_most(size))
    joined = join_translations(segments, [f"<{index}>" for index in range(len(segments))], "en")
    assert joined.replace(" ", "") == "".join(f"<{index}>" for index in range(len(segments)))
