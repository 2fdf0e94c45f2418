"""Generated sentences, read with grammar tables that owe nothing to the generator."""

import re
import unicodedata
from collections import defaultdict
from functools import cache
from itertools import islice

import pytest

from septuagint.data.demo.combinations import two_people
from septuagint.data.demo.corpus import count_meanings, generate_pairs
from septuagint.data.demo.predicates import chores, pastimes
from septuagint.data.demo.sentences import WEIGHTS, frames

from .german_tables import CASES, GENDERS, adjective_ending, determiner_readings, noun_forms

ADJECTIVES = """
wütend schlecht schön groß langweilig hell kaputt billig sauber klug kalt bequem dunkl lecker schwierig schmutzig
einfach leer teur berühmt schnell frisch freundlich lustig gut glücklich gesund schwer heiß hungrig krank wichtig
interessant faul klein lang laut modern eng nervös neu nett alt höflich praktisch ruhig reif traurig kurz langsam
stark süß hoh durstig müd warm jung rot blau grün gelb schwarz weiß grau braun
""".split()
ADJECTIVE_FORMS = {stem + ending: ending for stem in ADJECTIVES for ending in ("e", "en", "em", "er", "es")}
NUMBERS = "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()

DATIVE_PREPOSITIONS = ("mit", "zu", "zum", "zur", "von", "vom", "bei", "nach", "aus", "im", "am", "beim")
ACCUSATIVE_PREPOSITIONS = ("für", "durch", "ohne", "ins", "ans")
TWO_WAY_PREPOSITIONS = ("in", "an", "auf", "unter", "neben", "hinter", "vor")
CONTRACTED_ARTICLE = {
    **dict.fromkeys(("im", "am", "beim", "vom", "zum"), "dem"),
    **dict.fromkeys(("ins", "ans"), "das"),
    "zur": "der",
}

AUXILIARIES = """
habe hast hat haben bin bist ist sind werde wirst wird werden war warst waren hatte hattest hatten kann kannst können
muss musst müssen will willst wollen darf darfst dürfen sollte solltest sollten möchte möchtest möchten konnte
konntest konnten musste musstest mussten wollte wolltest wollten
""".split()
PRESENT_VERBS = """
liest lesen schreibt schreiben kocht kochen macht machen backt backen schält schälen wäscht waschen putzt putzen
aufräumt aufräumen pflanzt pflanzen gießt gießen füttert füttern malt malen sieht sehen schläft schlafen einkauft
einkaufen fernsieht fernsehen spielt spielen schwimmt schwimmen tanzt tanzen singt singen lernt lernen wartet warten
wandert wandern geht gehen regnet schneit wohnt wohnen arbeitet arbeiten spricht sprechen ankommt abfährt isst essen
trinkt trinken wohne arbeite frisst fressen
""".split()
FRONTED_TIMES = (
    r"Gestern (?:Morgen|Abend|Nachmittag)",
    r"Heute (?:Morgen|Abend|Nachmittag)",
    r"Morgen (?:früh|Abend)",
    r"(?:Vor)?[Gg]estern",
    r"Morgen",
    r"Übermorgen",
    r"Bald",
    r"Später",
    r"Vor (?:einer Stunde|zwei Stunden|zwei Tagen|ein paar Tagen|einem Jahr|drei Wochen)",
    r"In (?:einer Stunde|zwei Tagen|zwei Wochen|einem Jahr)",
    r"(?:Letzten|Nächsten) \w+",
    r"(?:Letzte|Nächste) Woche",
    r"(?:Letztes|Nächstes) Jahr",
    r"Am (?:\w+tag|Mittwoch)",
    r"Am \w+ten \w+",
    r"Im (?:Januar|Februar|März|April|Mai|Ju[nl]i|August|\w+ber)",
)
FRONTED = re.compile(f"^(?:{'|'.join(FRONTED_TIMES)}) (?P<verb>[a-zäöüß]+) ")


@cache
def sample(seed: int, size: int) -> tuple[tuple[str, str], ...]:
    return tuple(islice(generate_pairs(seed), size))


def words_of(sentence: str) -> list[str]:
    return re.findall(r"[\w'-]+|[,.?!]", sentence)


def noun_phrase_readings(words: list[str], start: int) -> tuple[set[tuple[str, str]], int] | None:
    """Cases and genders in which the phrase from `start` agrees, and where it ends; None if no phrase starts there."""
    determiners, nouns = determiner_readings(), noun_forms()
    first = words[start][0].lower() + words[start][1:] if start == 0 else words[start]
    if first in determiners:
        kinds, position = determiners[first], start + 1
    elif first in CONTRACTED_ARTICLE:
        kinds, position = determiners[CONTRACTED_ARTICLE[first]], start + 1
    elif first in NUMBERS or first in ADJECTIVE_FORMS:
        kinds = {(case, gender, "none") for case in CASES for gender in GENDERS}
        position = start + 1 if first in NUMBERS else start
    else:
        return None
    endings = []
    while position < len(words):
        word = words[position] if position else first
        if word not in ADJECTIVE_FORMS:
            break
        endings.append(word)
        position += 1
    if position >= len(words) or words[position] not in nouns:
        return None
    agreeing = {
        (case, gender)
        for case, gender, kind in kinds
        if (case, gender) in nouns[words[position]]
        and all(
            word.endswith(adjective_ending(kind, case, gender)) and ends_in(word, kind, case, gender)
            for word in endings
        )
    }
    return agreeing, position


def ends_in(word: str, kind: str, case: str, gender: str) -> bool:
    """The word is a known stem with exactly this ending, not a longer one that happens to end alike."""
    return word.removesuffix(adjective_ending(kind, case, gender)) in ADJECTIVES


def is_relative(words: list[str], index: int) -> bool:
    """Der, die, das after a comma, or after a comma and a preposition, is a pronoun rather than an article."""
    if words[index] not in ("der", "die", "das", "den", "dem", "denen") or index == 0:
        return False
    comma = index - 1 if words[index - 1] == "," else index - 2 if words[index - 1] in ("in", "mit") else 0
    # After "versucht," and "keine Zeit," an infinitive clause begins, and its article is an article.
    return words[comma] == "," and words[comma - 1][0].isupper() and words[comma - 1] != "Zeit"


def phrases(words: list[str]):
    index = 0
    while index < len(words):
        found = None if is_relative(words, index) else noun_phrase_readings(words, index)
        if found is None:
            index += 1
            continue
        readings, end = found
        if words[index : end + 1] == ["ein", "Uhr"]:
            index = end + 1
            continue
        yield index, end, readings
        index = end + 1


def test_determiner_adjectives_and_noun_agree_in_some_case():
    checked = 0
    for _, german in sample(101, 20_000):
        words = words_of(german)
        for start, end, readings in phrases(words):
            assert readings, f"{' '.join(words[start : end + 1])!r} in {german!r}"
            checked += 1
    assert checked > 25_000


def test_prepositions_govern_their_case():
    checked = 0
    for _, german in sample(101, 20_000):
        words = words_of(german)
        for start, end, readings in phrases(words):
            contracted = words[start][0].lower() + words[start][1:]
            before = contracted if contracted in CONTRACTED_ARTICLE else words[start - 1].lower() if start else ""
            allowed = (
                {"dative"}
                if before in DATIVE_PREPOSITIONS
                else {"accusative"}
                if before in ACCUSATIVE_PREPOSITIONS
                else {"dative", "accusative"}
                if before in TWO_WAY_PREPOSITIONS
                else set(CASES)
            )
            assert allowed & {case for case, _ in readings}, f"{' '.join(words[start - 1 : end + 1])!r} in {german!r}"
            checked += len(allowed) < len(CASES)
    assert checked > 5_000


def test_two_way_prepositions_tell_rest_from_motion():
    checked = 0
    for name, case in (
        ("putting_things", "accusative"),
        ("thing_location", "dative"),
        ("several_things_there", "dative"),
    ):
        for _, german in islice(draws(name), 1500):
            words = words_of(german)
            for start, end, readings in phrases(words):
                before = (
                    words[start].lower() if words[start].lower() in CONTRACTED_ARTICLE else words[start - 1].lower()
                )
                if before in (*TWO_WAY_PREPOSITIONS, *CONTRACTED_ARTICLE) and (start or words[start].lower() == before):
                    assert case in {found for found, _ in readings}, (
                        f"{' '.join(words[start : end + 1])!r} in {german!r}"
                    )
                    checked += 1
    assert checked > 3_000


def draws(name: str):
    from random import Random

    random = Random(7)
    while True:
        yield frames()[name].draw(random)


def test_finite_verb_is_last_in_a_subordinate_clause():
    checked = defaultdict(int)
    for _, german in sample(101, 20_000):
        for conjunction, clause in re.findall(
            r"(?:^|, )([Ww]eil|dass|[Oo]bwohl|[Bb]evor|[Aa]ls|ob) ([^,.?!]+)", german
        ):
            assert clause.split()[-1] in AUXILIARIES, german
            checked[conjunction.lower()] += 1
        for conjunction, clause in re.findall(r"(?:^|, )([Ww]ährend|[Ww]enn|wo|wann) ([^,.?!]+)", german):
            if not german.startswith(("Wo ", "Wann ")):
                assert clause.split()[-1] in (*AUXILIARIES, *PRESENT_VERBS), german
                checked[conjunction.lower()] += 1
    assert min(checked[word] for word in ("weil", "dass", "obwohl", "bevor", "als", "ob", "während", "wenn")) > 50


def test_finite_verb_is_last_in_a_relative_clause():
    checked = 0
    # After a noun; "keine Zeit, die Tür zuzumachen" is no relative clause.
    relative = re.compile(r"[A-ZÄÖÜ]\w+(?<!Zeit), (?:(?:in|mit) )?(?:der|die|das|den|dem|denen) ([^,.?!]+)")
    for _, german in sample(101, 20_000):
        for clause in relative.findall(german):
            assert clause.split()[-1] in (*AUXILIARIES, *PRESENT_VERBS), german
            checked += 1
    assert checked > 1_500


def test_finite_verb_is_second_after_a_fronted_time():
    checked = 0
    for _, german in sample(101, 20_000):
        found = FRONTED.match(german)
        if found:
            assert found["verb"] in (*AUXILIARIES, "liegen", "stehen", "gibt"), german
            checked += 1
    assert checked > 2_000


def test_finite_verb_follows_a_fronted_subordinate_clause():
    checked = 0
    for _, german in sample(101, 20_000):
        if german.startswith(("Weil ", "Obwohl ", "Wenn ", "Während ", "Bevor ", "Als ")):
            after_comma = german.split(", ")[1].split()[0]
            assert after_comma in (*AUXILIARIES, *(PRESENT_VERBS), "räumt", "zieht", "probiert"), german
            checked += 1
    assert checked > 1_500


def test_separable_prefix_stands_alone_at_the_end_or_joins_its_verb():
    sentences = [german for _, german in sample(101, 20_000)]
    assert any(re.search(r"\bholt gerade .* ab\.$", german) for german in sentences)
    assert any(re.search(r" abgeholt (hat|haben|habe|hast)\b", german) for german in sentences)
    assert any(" abzuholen." in german for german in sentences)
    assert not any(
        re.search(r"\b(ab|auf|an|ein|aus|zu|mit) (geholt|gemacht|geräumt|holt|räumt)\b", german) for german in sentences
    )


CAPITALISED = """
Sie Ihr Ihre Ihren Ihrem Ihrer Ihnen Herr Herrn Frau Weber Becker Schmidt Wagner Uhr Viertel Euro Jahre Jahr Stunde
Stunden Tag Tage Tagen Woche Wochen Monat Morgen Abend Nachmittag Wochenende Sommer Winter Hause Haus Fieber
Kopfschmerzen Zahnschmerzen Fußball Tennis Karten Klavier Gitarre Geige Deutsch Englisch Französisch Spanisch
Italienisch Kind Berlin Hamburg München Köln Wien Zürich London Paris Rom Deutschland Österreich Frankreich Italien
Spanien England Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag Januar Februar März April Mai Juni Juli
August September Oktober November Dezember Anna Julia Lisa Maria Emma Sarah Paul Peter Tom Jan Leon David Annas Julias
Lisas Marias Emmas Sarahs Pauls Peters Toms Jans Leons Davids Geschäft
""".split()


def test_nouns_and_nothing_else_are_capitalised():
    known = set(noun_forms()) | set(CAPITALISED)
    lower_nouns = {form.lower() for form in noun_forms()} - set(ADJECTIVE_FORMS)
    verbs_that_look_like_nouns = {
        "spiele",
        "spielen",
        "fragen",
        "frage",
        "antworten",
        "regeln",
        "filme",
        "arbeit",
        "reisen",
    }
    for _, german in sample(101, 20_000):
        for part in re.split(r"(?<=[?]) ", german):
            for word in words_of(part)[1:]:
                if word[0].isupper():
                    assert word in known, german
                elif word[0].isalpha():
                    assert word not in lower_nouns - verbs_that_look_like_nouns, f"{word!r} in {german!r}"


def test_sentences_are_well_formed_text():
    for pair in sample(101, 20_000):
        for sentence in pair:
            assert sentence == unicodedata.normalize("NFC", sentence)
            assert sentence == sentence.strip()
            assert "  " not in sentence
            assert sentence[0].isupper()
            assert sentence[-1] in ".?!"
            assert not re.search(r" [,.?!]|[,.?!]{2}|,\w", sentence), sentence
            doubled = re.findall(r"\b(\w+) \1\b", sentence, re.I)
            assert set(doubled) <= {"der", "die", "das", "den", "dem", "sie"}, sentence
        assert pair[0][-1] == pair[1][-1]


def test_nobody_is_named_twice_in_a_sentence():
    names = "Anna Julia Lisa Maria Emma Sarah Paul Peter Tom Jan Leon David".split()
    for _, german in sample(101, 20_000):
        words = words_of(german)
        assert all(words.count(name) <= 1 for name in names), german


def test_a_and_an_follow_the_sound():
    for english, _ in sample(101, 20_000):
        for article, word in re.findall(r"\b([Aa]n?) (\w+)", english):
            assert (article.lower() == "an") == ((word[0].lower() in "aeiou" and word != "hour") or word == "hour"), (
                english
            )


def test_english_third_person_verbs_agree():
    for english, _ in sample(101, 20_000):
        assert not re.search(r"^(He|She|It) (have|do|are|were|go|know|like)\b", english), english
        assert not re.search(r"^(I|You|We|They) (has|does|is|goes|knows|likes)\b", english), english


@pytest.mark.slow
def test_english_sentence_has_one_german_translation():
    german_of: dict[str, str] = {}
    for english, german in sample(112, 200_000):
        assert german_of.setdefault(english, german) == german


@pytest.mark.slow
def test_german_sentence_has_one_english_translation_but_for_her_and_them():
    english_of: dict[str, str] = {}
    for english, german in sample(112, 200_000):
        other = english_of.setdefault(german, english)
        assert re.sub(r"\b(her|them)\b", "", other) == re.sub(r"\b(her|them)\b", "", english)


def test_formal_address_goes_with_a_title():
    for english, german in sample(101, 20_000):
        is_titled = re.match(r"(Mr\.|Mrs\.) \w+, ", english) is not None
        assert is_titled == bool(re.search(r"(?<!^)\bSie\b", german)), (english, german)


def test_lengths_are_those_of_everyday_sentences():
    lengths = [len(english.split()) for english, _ in sample(101, 20_000)]
    assert 9 <= sum(lengths) / len(lengths) <= 11
    assert min(lengths) >= 2
    assert sum(length < 3 for length in lengths) < 10
    assert 20 <= max(lengths) <= 28


def test_there_are_many_frames_and_each_can_be_drawn():
    assert len(WEIGHTS) >= 40
    for name in frames():
        english, german = next(draws(name))
        assert english
        assert german


def test_count_equals_enumeration_in_every_small_frame():
    enumerated = 0
    for name, frame in frames().items():
        if frame.size <= 15_000:
            sentences = {english for english, _ in frame.items()}
            assert len(sentences) == frame.size, name
            enumerated += 1
    assert enumerated >= 12


def test_count_exceeds_a_billion_different_sentences():
    # "A did one thing, and B did another" splits into its parts at the only comma, so different parts are different
    # sentences; that the parts differ among themselves is enumerated.
    from septuagint.data.demo import english

    for predicates in (chores(), pastimes()):
        worded = {english.infinitive(predicate, "he") for predicate in predicates.items()}
        assert len(worded) == predicates.size
    assert two_people().size > 1_000_000_000
    assert count_meanings() >= two_people().size


@pytest.mark.parametrize(
    ("frame", "english", "german"),
    [
        ("time_of_day", "It is half past seven.", "Es ist halb acht."),
        ("date_today", "Today is the third of May.", "Heute ist der dritte Mai."),
        ("age", "My grandfather is eighty-three years old.", "Mein Großvater ist dreiundachtzig Jahre alt."),
        ("superlative", "This is the oldest church in Cologne.", "Das ist die älteste Kirche in Köln."),
        ("profession", "My sister is a nurse in Austria.", "Meine Schwester ist Krankenschwester in Österreich."),
        ("contrast_with_pronoun", "The table is old, but it is beautiful.", "Der Tisch ist alt, aber er ist schön."),
        ("how_much_question", "How much does the red coat cost?", "Wie viel kostet der rote Mantel?"),
        ("lost_and_found", "Where is my key? I cannot find it.", "Wo ist mein Schlüssel? Ich kann ihn nicht finden."),
    ],
)
def test_known_sentences_are_in_the_language(frame, english, german):
    assert (english, german) in set(frames()[frame].items())
