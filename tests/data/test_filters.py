"""Filters: each drops what it is for and nothing else, and no pair has a say in another's fate."""

from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septuagint.config import FilterConfig
from septuagint.data.filters import FILTERS, Column, EvaluationText, PairFilter, overlap_key
from septuagint.data.normaliser import normalise

MODEST = settings(max_examples=100, deadline=None)


def make_filter(
    source: str = "en", target: str = "de", evaluation: tuple[str, ...] = (), **values: object
) -> PairFilter:
    keys = [overlap_key(text) for text in evaluation]
    return PairFilter(FilterConfig.model_validate(values), source, target, EvaluationText(keys))


def reason(pair: tuple[str, str], source: str = "en", target: str = "de", **values: object) -> str | None:
    (answer,) = make_filter(source, target, **values).reasons([pair[0]], [pair[1]])
    return answer


GOOD = ("The house by the river is very old.", "Das Haus am Fluss ist sehr alt.")
EVALUATION = ("Where is the railway station?", "Wo ist der Bahnhof?", "Где находится вокзал?")
# For every filter a pair that it drops and no other does.
DROPPED = {
    "empty": ("", "Das Haus ist alt."),
    "too_long": ("word " * 250, "Wort " * 250),
    "too_short": ("a", "b"),
    "length_ratio": ("Yes.", "Das ist eine sehr lange Antwort auf eine sehr kurze Frage, die niemand gestellt hat."),
    "copied_source": ("Das Haus ist alt.", "das Haus ist ALT."),
    "long_word": ("a" + "b" * 90, "c" + "d" * 90),
    "wrong_script": ("The house is old.", "Дом очень старый."),
    "numbers_differ": ("He has 12 apples.", "Er hat 13 Äpfel."),
    "urls_differ": ("See http://example.com/a for more.", "Siehe http://example.com/b für mehr."),
    "overlap": ("Where is the railway station", "Wo steht der Bahnhof?"),
}
EVERYTHING = {"numbers": True, "urls": True, "evaluation": EVALUATION}


@pytest.mark.parametrize("name", DROPPED)
def test_each_filter_drops_its_example(name):
    pair = tuple(map(normalise, DROPPED[name]))
    assert reason((pair[0], pair[1]), **EVERYTHING) == name
    assert name in FILTERS


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("too_long", {"max_characters": 10_000}),
        ("too_short", {"min_characters": 0}),
        ("length_ratio", {"max_length_ratio": 0}),
        ("copied_source", {"copied_source": False}),
        ("long_word", {"max_word_characters": 0}),
        ("wrong_script", {"min_script_share": 0}),
        ("numbers_differ", {"numbers": False}),
        ("urls_differ", {"urls": False}),
        ("overlap", {"evaluation": ()}),
    ],
)
def test_a_filter_that_is_off_drops_nothing(name, off):
    pair = tuple(map(normalise, DROPPED[name]))
    assert reason((pair[0], pair[1]), **{**EVERYTHING, **off}) is None


def test_a_good_pair_passes_every_filter():
    assert reason(GOOD, **EVERYTHING) is None


def test_no_pairs_give_no_reasons():
    assert make_filter(evaluation=("Где?", "日本")).reasons([], []) == []


WORDS = st.sampled_from(
    [
        "house",
        "Haus",
        "старый",
        "日本語",
        "x" * 81,
        "12",
        "13",
        "www.a.de",
        "www.b.de",
        ".",
        "",
        "Wo ist der Bahnhof",
        "ß",
    ]
)
SENTENCE = st.lists(WORDS, max_size=6).map(lambda words: normalise(" ".join(words)))


@MODEST
@given(st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=12))
def test_pairs_do_not_influence_each_other(pairs):
    pair_filter = make_filter(**EVERYTHING)
    together = pair_filter.reasons([source for source, _ in pairs], [target for _, target in pairs])
    alone = [pair_filter.reasons([source], [target])[0] for source, target in pairs]
    assert together == alone


@MODEST
@given(st.lists(st.text(max_size=30).map(normalise), min_size=1, max_size=8), st.integers(1, 12))
def test_the_quick_look_never_misses_a_long_word(lines, limit):
    lines = [line.encode(errors="ignore").decode() for line in lines]
    answers = Column(lines).may_have_word_over(limit)
    for line, answer in zip(lines, answers, strict=True):
        assert answer or all(len(word) <= limit for word in line.split(" "))


@MODEST
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30).map(normalise), st.text("abcñ日 .", max_size=9))
def test_a_sentence_always_overlaps_with_itself(text, other):
    evaluation = EvaluationText([overlap_key(text), overlap_key(normalise(other))])
    assert evaluation.holds(Column([text])).tolist() == [text != ""]


class TestLanguages:
    """Good pairs of many languages with English pass with the settings that everybody has."""

    PAIRS: ClassVar = {
        "ja": (
            "All human beings are born free and equal in dignity and rights, and they should act towards one another "
            "in a spirit of brotherhood, whatever their origin may be, said the chairman of the committee yesterday.",
            "すべての人間は生まれながらにして自由でありかつ尊厳と権利とについて平等であり出身がどこであろうと互いに同胞の精神をもって行動しなければならないと"
            "委員会の議長は昨日の会合で述べたうえで加盟国に対して速やかな行動をとるよう強く求めたことが関係者への取材で明らかになりました。",
        ),
        "zh": (
            "All human beings are born free and equal in dignity and rights.",
            "人人生而自由,在尊严和权利上一律平等。",
        ),
        "th": (
            "All human beings are born free and equal in dignity and rights. They are endowed with reason and "
            "conscience and should act towards one another in a spirit of brotherhood.",
            "มนุษย์ทั้งปวงเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิต่างมีเหตุผลและมโนธรรมและควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ",
        ),
        "ko": (
            "All human beings are born free and equal in dignity and rights.",
            "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
        ),
        "ru": (
            "All human beings are born free and equal in dignity and rights.",
            "Все люди рождаются свободными и равными в своём достоинстве и правах.",
        ),
        "ar": (
            "All human beings are born free and equal in dignity and rights.",
            "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
        ),
        "hi": (
            "All human beings are born free and equal in dignity and rights.",
            "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
        ),
        "km": ("All human beings are born free.", "មនុស្សទាំងអស់កើតមកមានសេរីភាពនិងសមភាពក្នុងផ្នែកសេចក្ដីថ្លៃថ្នូរ"),
    }
    SHORT: ClassVar = {
        "ja": ("Yes.", "はい。"),
        "zh": ("I am going home now.", "我现在回家。"),
        "th": ("Thank you.", "ขอบคุณ"),
        "ko": ("Hello!", "안녕하세요!"),
        "ru": ("No way!", "Ни за что!"),
        "ar": ("Peace.", "سلام."),
        "hi": ("Thanks.", "धन्यवाद।"),
    }

    @pytest.mark.parametrize("language", PAIRS)
    def test_long_sentences_survive_in_both_directions(self, language):
        english, other = self.PAIRS[language]
        assert reason((normalise(english), normalise(other)), "en", language) is None
        assert reason((normalise(other), normalise(english)), language, "en") is None

    @pytest.mark.parametrize("language", SHORT)
    def test_short_sentences_survive(self, language):
        english, other = self.SHORT[language]
        assert reason((english, normalise(other)), "en", language) is None

    @pytest.mark.parametrize("language", ["ja", "zh", "th", "ko", "ru", "ar", "hi"])
    def test_english_in_place_of_another_script_is_dropped(self, language):
        english, _ = self.PAIRS[language]
        assert reason((english, "The translation of this sentence was never made."), "en", language) in (
            "wrong_script",
            "length_ratio",
        )

    def test_a_few_foreign_words_do_no_harm(self):
        assert reason(("I use Python and Linux.", "私は毎日の仕事でPythonとLinuxを使っています。"), "en", "ja") is None
        assert reason(("The word мир means peace.", "Das Wort мир heißt Frieden."), "en", "de") is None


class TestNumbersAndAddresses:
    @pytest.mark.parametrize(
        ("source", "target"),
        [
            ("It costs 1,000 dollars.", "Es kostet 1.000 Dollar."),
            ("It costs 1,234,567 dollars.", "Es kostet 1 234 567 Dollar."),
            ("It is 1000 metres.", "Es sind 1'000 Meter."),
            ("About 3.5 of 10", "Etwa 3,5 von 10"),
            ("In 2019, 300 came.", "2019 kamen 300."),
            ("No number here.", "Keine Zahl hier."),
        ],
    )
    def test_the_same_numbers_in_other_clothes_pass(self, source, target):
        assert reason((source, target), numbers=True) is None

    def test_a_year_before_a_number_is_not_one_number(self):
        assert reason(("In 2019 300 people came.", "300 Leute kamen 2019."), numbers=True) is None

    def test_other_numbers_are_dropped(self):
        assert reason(("It costs 1,000 dollars.", "Es kostet 1.001 Dollar."), numbers=True) == "numbers_differ"
        assert reason(("It costs 5 dollars.", "Es kostet Dollar."), numbers=True) == "numbers_differ"

    @pytest.mark.parametrize(
        ("source", "target", "language"),
        [
            ("See https://Example.com/a.", "Siehe https://example.com/a", "de"),
            ('Write to "jane.doe@example.com", please.', "Bitte an jane.doe@example.com schreiben.", "de"),
            ("See (www.example.com) now", "Jetzt www.example.com ansehen", "de"),
            ("Please visit https://example.com/a.", "请访问 https://example.com/a。", "zh"),
        ],
    )
    def test_the_same_addresses_pass(self, source, target, language):
        assert reason((source, target), "en", language, urls=True, min_script_share=0) is None

    def test_a_lost_address_is_dropped(self):
        assert reason(("See https://example.com now", "Siehe dort jetzt nach"), urls=True) == "urls_differ"


class TestOverlap:
    """Training text must not hold what a model is tested on, whatever the script."""

    @pytest.mark.parametrize(
        ("evaluation", "line"),
        [
            ("Where is the railway station?", "where is the  RAILWAY station"),
            ("Wo ist der Bahnhof?", "Wo ist - der Bahnhof!"),
            ("Где находится вокзал?", "где находится вокзал"),
            ("東京駅はどこですか。", "東京駅は、どこですか?"),
            ("أين محطة القطار؟", "أين محطة القطار"),
            ("स्टेशन कहाँ है?", "स्टेशन कहाँ है।"),
            ("İstanbul çok güzel bir şehir.", "İstanbul çok güzel bir şehir"),
            ("ΠΟΎ ΕΊΝΑΙ Ο ΣΤΑΘΜΌΣ;", "Πού είναι ο Σταθμός"),
            ("...", "..."),
        ],
    )
    @pytest.mark.parametrize("side", [0, 1])
    def test_the_same_text_is_found_on_either_side(self, evaluation, line, side):
        pair = [normalise("Something quite different, of good length"), normalise("Something else of good length")]
        pair[side] = normalise(line)
        values = {"min_script_share": 0, "max_length_ratio": 0, "evaluation": (normalise(evaluation),)}
        assert reason((pair[0], pair[1]), **values) == "overlap"

    @pytest.mark.parametrize(
        ("evaluation", "line"),
        [
            ("Where is the railway station?", "Where is the old railway station?"),
            ("लड़का गया", "लड़की गयी"),  # the boy went, the girl went: they differ in vowel signs
            ("ที่นี่", "ทนา"),
            ("कि", "की"),
            ("...", "?!"),
            ("Schön", "Schon"),
        ],
    )
    def test_another_text_is_not_taken_for_it(self, evaluation, line):
        assert not EvaluationText([overlap_key(normalise(evaluation))]).holds(Column([normalise(line)])).any()


@pytest.fixture(scope="module")
def english_german() -> PairFilter:
    return make_filter(language=True)


class TestLanguageIdentification:
    def test_the_right_languages_pass(self, english_german):
        assert english_german.reasons([GOOD[0]], [GOOD[1]]) == [None]

    def test_english_on_the_german_side_is_dropped(self, english_german):
        target = "This sentence was never translated into any other language."
        assert english_german.reasons(["The sentence was not translated at all."], [target]) == ["wrong_language"]

    def test_german_on_the_english_side_is_dropped(self, english_german):
        pair = ("Dieser Satz wurde leider niemals ins Englische übersetzt.", "Dieser Satz wurde nie übersetzt, leider.")
        assert english_german.reasons([pair[0]], [pair[1]]) == ["wrong_language"]

    @pytest.mark.parametrize(
        "pair", [("Yes!", "Ja!"), ("Barack Obama", "Barack  Obama jr."), ("OK", "Okay"), ("12 : 30", "12.30 Uhr")]
    )
    def test_names_and_short_text_pass(self, english_german, pair):
        assert english_german.reasons([normalise(pair[0])], [normalise(pair[1])]) == [None]

    @pytest.mark.parametrize("language", ["ja", "zh", "th", "ko", "ru", "ar", "hi"])
    def test_other_scripts_pass(self, language):
        english, other = TestLanguages.PAIRS[language]
        assert reason((normalise(english), normalise(other)), "en", language, language=True) is None

    def test_a_language_that_cannot_be_identified_is_refused_with_the_cure(self):
        with pytest.raises(Exception, match=r"cannot identify 'vo'; set filters.language = false"):
            make_filter("en", "vo", language=True)
