"""English forms against tables written by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from septuagint.data.demo import adjectives, english, nouns, verbs
from septuagint.data.demo.lexicon import Adjunct
from septuagint.data.demo.meaning import Clause, NounPhrase, Predicate, Pronoun

PLURALS = """
mother mothers; child children; woman women; man men; policeman policemen; boy boys; mouse mice; cherry cherries;
strawberry strawberries; potato potatoes; tomato tomatoes; dress dresses; scarf scarves; shelf shelves; knife knives;
glass glasses; library libraries; city cities; church churches; bus buses; box boxes; key keys; radio radios;
kitchen table kitchen tables; washing machine washing machines; story stories; match matches; bakery bakeries;
dictionary dictionaries; e-mail e-mails; sandwich sandwiches; cow cows; bridge bridges; bus stop bus stops
"""


def expected_plurals() -> dict[str, str]:
    entries = [" ".join(entry.split()).split(" ") for entry in PLURALS.split(";")]
    return {" ".join(words[: len(words) // 2]): " ".join(words[len(words) // 2 :]) for words in entries}


def test_plurals_are_those_of_the_dictionary():
    expected = expected_plurals()
    checked = [noun for noun in nouns.all_nouns() if noun.english in expected]
    assert len(checked) >= 30
    for noun in checked:
        assert english.plural(noun) == expected[noun.english]


@pytest.mark.parametrize(
    ("base", "third", "past", "participle", "progressive"),
    [
        ("read", "reads", "read", "read", "reading"),
        ("write", "writes", "wrote", "written", "writing"),
        ("eat", "eats", "ate", "eaten", "eating"),
        ("go", "goes", "went", "gone", "going"),
        ("have", "has", "had", "had", "having"),
        ("swim", "swims", "swam", "swum", "swimming"),
        ("run", "runs", "ran", "run", "running"),
        ("tidy", "tidies", "tidied", "tidied", "tidying"),
        ("cry", "cries", "cried", "cried", "crying"),
        ("try", "tries", "tried", "tried", "trying"),
        ("play", "plays", "played", "played", "playing"),
        ("wash", "washes", "washed", "washed", "washing"),
        ("watch", "watches", "watched", "watched", "watching"),
        ("miss", "misses", "missed", "missed", "missing"),
        ("close", "closes", "closed", "closed", "closing"),
        ("dance", "dances", "danced", "danced", "dancing"),
        ("put", "puts", "put", "put", "putting"),
        ("forget", "forgets", "forgot", "forgotten", "forgetting"),
        ("catch", "catches", "caught", "caught", "catching"),
        ("begin", "begins", "began", "begun", "beginning"),
        ("hike", "hikes", "hiked", "hiked", "hiking"),
        ("open", "opens", "opened", "opened", "opening"),
        ("visit", "visits", "visited", "visited", "visiting"),
        ("answer", "answers", "answered", "answered", "answering"),
        ("listen", "listens", "listened", "listened", "listening"),
        ("repair", "repairs", "repaired", "repaired", "repairing"),
        ("pay", "pays", "paid", "paid", "paying"),
        ("carry", "carries", "carried", "carried", "carrying"),
        ("sleep", "sleeps", "slept", "slept", "sleeping"),
        ("wear", "wears", "wore", "worn", "wearing"),
    ],
)
def test_verb_has_its_principal_parts(base, third, past, participle, progressive):
    assert english.third_person(base) == third
    assert english.past(base) == past
    assert english.past_participle(base) == participle
    assert english.present_participle(base) == progressive


def test_be_agrees_with_its_subject():
    assert [english.be("present", person) for person in ("I", "you", "he", "we", "they")] == "am are is are are".split()
    assert [
        english.be("past", person) for person in ("I", "you", "it", "we", "they")
    ] == "was were was were were".split()


@pytest.mark.parametrize(
    ("adjective", "comparative", "superlative"),
    [
        (adjectives.OLD, "older", "oldest"),
        (adjectives.BIG, "bigger", "biggest"),
        (adjectives.HOT, "hotter", "hottest"),
        (adjectives.GOOD, "better", "best"),
        (adjectives.BAD, "worse", "worst"),
        (adjectives.NICE, "nicer", "nicest"),
        (adjectives.HEAVY, "heavier", "heaviest"),
        (adjectives.LAZY, "lazier", "laziest"),
        (adjectives.QUIET, "quieter", "quietest"),
        (adjectives.FRIENDLY, "friendlier", "friendliest"),
        (adjectives.BEAUTIFUL, "more beautiful", "most beautiful"),
        (adjectives.EXPENSIVE, "more expensive", "most expensive"),
        (adjectives.MODERN, "more modern", "most modern"),
        (adjectives.POLITE, "more polite", "most polite"),
        (adjectives.COMFORTABLE, "more comfortable", "most comfortable"),
    ],
)
def test_adjective_has_its_comparison(adjective, comparative, superlative):
    assert english.comparative(adjective) == comparative
    assert english.superlative(adjective) == superlative


@pytest.mark.parametrize(
    ("word", "article"),
    [("apple", "an"), ("old", "an"), ("e-mail", "an"), ("book", "a"), ("university", "a"), ("one", "a")],
)
def test_article_follows_the_sound(word, article):
    assert english.article(word) == article


WORD_VALUES = {
    **dict(
        zip(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen".split(),
            range(20),
            strict=True,
        )
    ),
    **dict(zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True)),
}


def parse_english(words: str) -> int:
    total = current = 0
    for word in words.replace("-", " ").split():
        if word == "hundred":
            current *= 100
        elif word == "thousand":
            total, current = total + current * 1000, 0
        elif word != "and":
            current += WORD_VALUES[word]
    return total + current


@given(st.integers(0, 9999))
def test_number_words_parse_back_to_the_number(number):
    assert parse_english(english.number_words(number)) == number


def test_all_numbers_to_999_parse_back():
    assert [parse_english(english.number_words(number)) for number in range(1000)] == list(range(1000))


def test_numbers_are_written_as_in_british_english():
    assert english.number_words(23) == "twenty-three"
    assert english.number_words(105) == "one hundred and five"
    assert english.number_words(2300) == "two thousand three hundred"
    assert english.number_words(4005) == "four thousand and five"


def test_ordinals_of_a_month():
    expected = (
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
        "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third "
        "twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
    )
    assert [english.ordinal(day) for day in range(1, 32)] == expected.split()


@pytest.mark.parametrize(
    ("hour", "minute", "text"),
    [
        (7, 0, "seven o'clock"),
        (7, 30, "half past seven"),
        (3, 15, "quarter past three"),
        (3, 45, "quarter to four"),
        (12, 45, "quarter to one"),
        (12, 30, "half past twelve"),
        (5, 10, "ten past five"),
        (5, 35, "twenty-five to six"),
        (11, 55, "five to twelve"),
    ],
)
def test_clock_times(hour, minute, text):
    assert english.clock_time(hour, minute) == text


def clause(subject="he", verb=verbs.READ, **parts):
    thing = NounPhrase(nouns.BOOK, "the")
    return Clause(subject=Pronoun(subject), predicate=Predicate(verb, thing), **parts)


def test_verb_groups_of_every_tense_and_modal():
    assert english.statement(clause(tense="present")) == "he reads the book"
    assert english.statement(clause(tense="progressive")) == "he is reading the book"
    assert english.statement(clause(tense="past")) == "he read the book"
    assert english.statement(clause(tense="future")) == "he will read the book"
    assert english.statement(clause(tense="present", is_negated=True)) == "he does not read the book"
    assert english.statement(clause(tense="past", is_negated=True)) == "he did not read the book"
    assert english.statement(clause(modal="can", is_negated=True)) == "he cannot read the book"
    assert english.statement(clause(modal="can", tense="past")) == "he could read the book"
    assert english.statement(clause(modal="have to")) == "he has to read the book"
    assert (
        english.statement(clause(modal="have to", tense="past", is_negated=True)) == "he did not have to read the book"
    )
    assert english.statement(clause(modal="may", is_negated=True)) == "he must not read the book"
    assert english.statement(clause(modal="would like to")) == "he would like to read the book"


def test_questions_invert_and_take_do():
    assert english.question(clause(subject="you", tense="past")) == "did you read the book"
    assert english.question(clause(subject="they", tense="progressive")) == "are they reading the book"
    assert english.question(clause(modal="want to")) == "does he want to read the book"


def test_particle_follows_a_pronoun_and_precedes_a_noun():
    pronoun = Predicate(verbs.PICK_UP, Pronoun("she"))
    noun = Predicate(verbs.PICK_UP, NounPhrase(nouns.MOTHER, "own"))
    assert english.infinitive(pronoun, "I") == "pick her up"
    assert english.infinitive(noun, "they") == "pick up their mother"


def test_already_and_yet_have_their_places():
    already = clause(tense="perfect", settled=Adjunct("already", "schon"))
    not_yet = clause(tense="perfect", settled=Adjunct("yet", "noch nicht"), is_negated=True)
    assert english.statement(already) == "he has already read the book"
    assert english.statement(not_yet) == "he has not read the book yet"
