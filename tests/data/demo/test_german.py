"""German forms against paradigms written by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from septuagint.data.demo import adjectives, german, nouns, verbs
from septuagint.data.demo.lexicon import Adjunct, verb
from septuagint.data.demo.meaning import Clause, Name, NounPhrase, Predicate, Prepositional, Pronoun

from .german_tables import read_nouns

PARADIGMS = {
    "der alte Mann": (
        NounPhrase(nouns.MAN, "the", adjectives=(adjectives.OLD,)),
        ("der alte Mann", "den alten Mann", "dem alten Mann", "des alten Mannes"),
    ),
    "eine kleine Katze": (
        NounPhrase(nouns.CAT, "a", adjectives=(adjectives.SMALL,)),
        ("eine kleine Katze", "eine kleine Katze", "einer kleinen Katze", "einer kleinen Katze"),
    ),
    "keine neuen Bücher": (
        NounPhrase(nouns.BOOK, "no", True, (adjectives.NEW,)),
        ("keine neuen Bücher", "keine neuen Bücher", "keinen neuen Büchern", "keiner neuen Bücher"),
    ),
    "ein junger Student": (
        NounPhrase(nouns.STUDENT, "a", adjectives=(adjectives.YOUNG,)),
        ("ein junger Student", "einen jungen Studenten", "einem jungen Studenten", "eines jungen Studenten"),
    ),
    "dieses teure Haus": (
        NounPhrase(nouns.HOUSE, "this", adjectives=(adjectives.EXPENSIVE,)),
        ("dieses teure Haus", "dieses teure Haus", "diesem teuren Haus", "dieses teuren Hauses"),
    ),
    "mein kleines Zimmer": (
        NounPhrase(nouns.ROOM, "my", adjectives=(adjectives.SMALL,)),
        ("mein kleines Zimmer", "mein kleines Zimmer", "meinem kleinen Zimmer", "meines kleinen Zimmers"),
    ),
    "unsere freundlichen Nachbarn": (
        NounPhrase(nouns.NEIGHBOUR, "our", True, (adjectives.FRIENDLY,)),
        (
            "unsere freundlichen Nachbarn",
            "unsere freundlichen Nachbarn",
            "unseren freundlichen Nachbarn",
            "unserer freundlichen Nachbarn",
        ),
    ),
    "drei alte Bäume": (
        NounPhrase(nouns.TREE, "", True, (adjectives.OLD,), number=3),
        ("drei alte Bäume", "drei alte Bäume", "drei alten Bäumen", "drei alter Bäume"),
    ),
    "heißer Tee": (
        NounPhrase(nouns.TEA, "", adjectives=(adjectives.HOT,)),
        ("heißer Tee", "heißen Tee", "heißem Tee", "heißen Tees"),
    ),
    "frische Milch": (
        NounPhrase(nouns.MILK, "", adjectives=(adjectives.FRESH,)),
        ("frische Milch", "frische Milch", "frischer Milch", "frischer Milch"),
    ),
    "kaltes Wasser": (
        NounPhrase(nouns.COLD_DRINKS.nouns[1], "", adjectives=(adjectives.COLD,)),
        ("kaltes Wasser", "kaltes Wasser", "kaltem Wasser", "kalten Wassers"),
    ),
    "ihr neuer roter Mantel": (
        NounPhrase(nouns.CLOTHES.nouns[1], "her", adjectives=(adjectives.NEW, adjectives.RED)),
        ("ihr neuer roter Mantel", "ihren neuen roten Mantel", "ihrem neuen roten Mantel", "ihres neuen roten Mantels"),
    ),
    "ein dunkles Büro": (
        NounPhrase(nouns.OFFICE, "a", adjectives=(adjectives.DARK,)),
        ("ein dunkles Büro", "ein dunkles Büro", "einem dunklen Büro", "eines dunklen Büros"),
    ),
    "ein hoher Turm": (
        NounPhrase(nouns.TOWER, "a", adjectives=(adjectives.TALL_AND_HIGH,)),
        ("ein hoher Turm", "einen hohen Turm", "einem hohen Turm", "eines hohen Turms"),
    ),
}


@pytest.mark.parametrize("name", PARADIGMS)
def test_noun_phrase_declines_through_all_cases(name):
    phrase, expected = PARADIGMS[name]
    assert tuple(german.phrase(phrase, case) for case in ("nominative", "accusative", "dative", "genitive")) == expected


def test_every_noun_has_the_gender_and_plurals_of_the_dictionary():
    by_hand = {noun.singular or noun.plural: noun for noun in read_nouns()}
    for noun in nouns.all_nouns():
        expected = by_hand[noun.german]
        assert noun.german_plural == expected.plural
        assert noun.is_weak == expected.is_weak
        if expected.singular:
            assert noun.gender == expected.gender
        if expected.plural:
            assert german.decline_noun(noun, "dative", is_plural=True) == expected.dative_plural


def test_weak_nouns_take_their_ending_everywhere_but_in_the_nominative():
    assert german.decline_noun(nouns.BOY, "nominative") == "Junge"
    assert german.decline_noun(nouns.BOY, "accusative") == "Jungen"
    assert german.decline_noun(nouns.BOY, "dative") == "Jungen"
    assert german.decline_noun(nouns.NEIGHBOUR, "genitive") == "Nachbarn"


PRONOUNS = {
    "I": "ich mich mir",
    "you": "du dich dir",
    "he": "er ihn ihm",
    "she": "sie sie ihr",
    "we": "wir uns uns",
    "they": "sie sie ihnen",
    "You": "Sie Sie Ihnen",
}


@pytest.mark.parametrize("person", PRONOUNS)
def test_personal_pronouns(person):
    forms = [german.phrase(Pronoun(person), case) for case in ("nominative", "accusative", "dative")]
    assert forms == PRONOUNS[person].split()


def test_pronoun_for_a_thing_has_the_gender_of_its_noun():
    assert german.phrase(Pronoun("it", "masculine"), "accusative") == "ihn"
    assert german.phrase(Pronoun("it", "feminine"), "nominative") == "sie"
    assert german.phrase(Pronoun("it", "neuter"), "accusative") == "es"


def test_relative_pronouns():
    cases = ("nominative", "accusative", "dative")
    for noun, is_plural, expected in (
        (nouns.MAN, False, "der den dem"),
        (nouns.WOMAN, False, "die die der"),
        (nouns.CHILD, False, "das das dem"),
        (nouns.CHILD, True, "die die denen"),
    ):
        phrase = NounPhrase(noun, "the", is_plural)
        assert [german.relative_pronoun(phrase, case) for case in cases] == expected.split()


def test_titles_and_names():
    weber = Name("Weber", "he", "Mr.", "Herr")
    assert german.phrase(weber, "nominative") == "Herr Weber"
    assert german.phrase(weber, "accusative") == "Herrn Weber"
    assert german.phrase(Name("Anna", "she"), "genitive") == "Annas"


def test_possessors_stand_before_or_after():
    brother = NounPhrase(nouns.BROTHER, "my")
    of_brother = NounPhrase(nouns.CAR, "the", adjectives=(adjectives.OLD,), owner=brother)
    of_anna = NounPhrase(nouns.CAR, "the", adjectives=(adjectives.OLD,), owner=Name("Anna", "she"))
    assert german.phrase(of_brother, "nominative") == "das alte Auto meines Bruders"
    assert german.phrase(of_anna, "nominative") == "Annas altes Auto"


def test_prepositions_contract_with_plain_articles():
    from septuagint.data.demo import adverbs

    garden = NounPhrase(nouns.GARDEN, "the")
    assert german.complement(Prepositional(adverbs.IN, garden)) == "im Garten"
    assert german.complement(Prepositional(adverbs.INTO, garden)) == "in den Garten"
    assert german.complement(Prepositional(adverbs.TO, NounPhrase(nouns.SCHOOL, "the"))) == "zur Schule"
    assert german.complement(Prepositional(adverbs.FROM, NounPhrase(nouns.STATION, "the"))) == "vom Bahnhof"
    assert german.complement(Prepositional(adverbs.TO_INSIDE, NounPhrase(nouns.CINEMA, "the"))) == "ins Kino"
    assert german.complement(Prepositional(adverbs.IN, NounPhrase(nouns.HOUSE, "this"))) == "in diesem Haus"


PRESENT = {
    "READ": "lese liest liest lesen lesen",
    "EAT": "esse isst isst essen essen",
    "TAKE_ALONG": "nehme nimmst nimmt nehmen nehmen",
    "WORK": "arbeite arbeitest arbeitet arbeiten arbeiten",
    "FIND": "finde findest findet finden finden",
    "FEED": "füttere fütterst füttert füttern füttern",
    "HIKE": "wandere wanderst wandert wandern wandern",
    "DANCE": "tanze tanzt tanzt tanzen tanzen",
    "WATER": "gieße gießt gießt gießen gießen",
    "WASH": "wasche wäschst wäscht waschen waschen",
    "INVITE": "lade lädst lädt laden laden",
    "TRAVEL": "fahre fährst fährt fahren fahren",
    "HELP": "helfe hilfst hilft helfen helfen",
    "FORGET": "vergesse vergisst vergisst vergessen vergessen",
    "HAVE": "habe hast hat haben haben",
    "BE": "bin bist ist sind sind",
    "KNOW_THAT": "weiß weißt weiß wissen wissen",
    "LIKE": "mag magst mag mögen mögen",
    "RAIN": "regne regnest regnet regnen regnen",
    "SWITCH_ON": "schalte schaltest schaltet schalten schalten",
    "BEGIN": "fange fängst fängt fangen fangen",
}


@pytest.mark.parametrize("name", PRESENT)
def test_present_tense(name):
    entry = getattr(verbs, name)
    forms = [german.present(entry.german, person, entry.third_person) for person in ("I", "you", "he", "we", "they")]
    assert forms == PRESENT[name].split()


MODALS = {
    "können": "kann kannst kann können können",
    "müssen": "muss musst muss müssen müssen",
    "wollen": "will willst will wollen wollen",
    "dürfen": "darf darfst darf dürfen dürfen",
    "möchten": "möchte möchtest möchte möchten möchten",
    "sollten": "sollte solltest sollte sollten sollten",
    "werden": "werde wirst wird werden werden",
}


@pytest.mark.parametrize("infinitive", MODALS)
def test_modal_verbs_and_werden(infinitive):
    assert [german.present(infinitive, person) for person in ("I", "you", "he", "we", "they")] == MODALS[
        infinitive
    ].split()


PRETERITE = {
    "sein": "war warst war waren waren",
    "haben": "hatte hattest hatte hatten hatten",
    "können": "konnte konntest konnte konnten konnten",
    "müssen": "musste musstest musste mussten mussten",
    "wollen": "wollte wolltest wollte wollten wollten",
    "wissen": "wusste wusstest wusste wussten wussten",
}


@pytest.mark.parametrize("infinitive", PRETERITE)
def test_preterite(infinitive):
    forms = [german.preterite(infinitive, person) for person in ("I", "you", "she", "we", "they")]
    assert forms == PRETERITE[infinitive].split()


PARTICIPLES = """
READ hat gelesen; WRITE hat geschrieben; EAT hat gegessen; DRINK hat getrunken; COOK hat gekocht; BAKE hat gebacken;
BUY hat gekauft; SELL hat verkauft; PAY hat bezahlt; FIND hat gefunden; LOSE hat verloren; FORGET hat vergessen;
REPAIR hat repariert; WASH hat gewaschen; CLEAN hat geputzt; OPEN hat aufgemacht; CLOSE hat zugemacht;
SWITCH_ON hat eingeschaltet; SWITCH_OFF hat ausgeschaltet; PUT_ON hat angezogen; TRY_ON hat anprobiert;
WEAR hat getragen; TAKE_ALONG hat mitgenommen; TIDY_UP hat aufgeräumt; PAINT hat gemalt; BUILD hat gebaut;
PLANT hat gepflanzt; WATER hat gegossen; FEED hat gefüttert; SEE hat gesehen; HEAR hat gehört; SING hat gesungen;
UNDERSTAND hat verstanden; LEARN hat gelernt; SPEAK hat gesprochen; PLAY hat gespielt; GET hat bekommen;
MISS hat verpasst; VISIT hat besucht; MEET hat getroffen; CALL hat angerufen; PICK_UP hat abgeholt;
INVITE hat eingeladen; ASK hat gefragt; HELP hat geholfen; THANK hat gedankt; ANSWER hat geantwortet;
FOLLOW ist gefolgt; LISTEN hat zugehört; GIVE hat gegeben; SHOW hat gezeigt; SEND hat geschickt; LEND hat geliehen;
BRING hat gebracht; TELL hat erzählt; GO ist gegangen; TRAVEL ist gefahren; FLY ist geflogen; COME ist gekommen;
COME_BACK ist zurückgekommen; STAY ist geblieben; RUN ist gerannt; ARRIVE ist angekommen; DEPART ist abgefahren;
GET_UP ist aufgestanden; WAKE_UP ist aufgewacht; MOVE ist gezogen; LIVE hat gewohnt; WORK hat gearbeitet;
SLEEP hat geschlafen; WAIT hat gewartet; DANCE hat getanzt; SWIM ist geschwommen; HIKE ist gewandert;
LAUGH hat gelacht; CRY hat geweint; GO_SHOPPING hat eingekauft; WATCH_TV hat ferngesehen; SIT hat gesessen;
BARK hat gebellt; TRY hat versucht; BEGIN hat angefangen; LAY hat gelegt; STAND_UP hat gestellt; HANG_UP hat gehängt;
RAIN hat geregnet; SNOW hat geschneit; SHINE hat geschienen; CATCH hat gefangen; PEEL hat geschält;
LOOK_FOR hat gesucht; EAT_AS_ANIMAL hat gefressen; PUT_ON_HEAD hat aufgesetzt;
CARRY hat getragen; MAKE hat gemacht; WATCH hat gesehen
"""


def test_participles_and_their_auxiliaries():
    for entry in PARTICIPLES.split(";"):
        name, auxiliary, participle = entry.split()
        found = getattr(verbs, name)
        assert (("ist" if found.takes_sein else "hat"), german.participle(found)) == (auxiliary, participle)


def test_infinitives_with_zu_keep_the_prefix_in_front():
    assert german.infinitive_with_zu(verbs.PICK_UP) == "abzuholen"
    assert german.infinitive_with_zu(verbs.VISIT) == "zu besuchen"


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("GIVE", "gib"),
        ("READ", "lies"),
        ("EAT", "iss"),
        ("TAKE_ALONG", "nimm"),
        ("FORGET", "vergiss"),
        ("TRAVEL", "fahr"),
        ("WASH", "wasch"),
        ("WAIT", "warte"),
        ("ANSWER", "antworte"),
        ("OPEN", "mach"),
        ("FEED", "füttere"),
        ("INVITE", "lad"),
        ("WATER", "gieß"),
        ("DANCE", "tanz"),
        ("BE", "sei"),
    ],
)
def test_imperatives(name, form):
    assert german.imperative(getattr(verbs, name)) == form


@pytest.mark.parametrize(
    ("adjective", "comparative", "superlative"),
    [
        (adjectives.OLD, "älter", "älteste"),
        (adjectives.BIG, "größer", "größte"),
        (adjectives.GOOD, "besser", "beste"),
        (adjectives.EXPENSIVE, "teurer", "teuerste"),
        (adjectives.DARK, "dunkler", "dunkelste"),
        (adjectives.TALL_AND_HIGH, "höher", "höchste"),
        (adjectives.SHORT, "kürzer", "kürzeste"),
        (adjectives.BEAUTIFUL, "schöner", "schönste"),
        (adjectives.NEW, "neuer", "neueste"),
        (adjectives.BAD, "schlechter", "schlechteste"),
        (adjectives.QUIET, "ruhiger", "ruhigste"),
        (adjectives.SWEET, "süßer", "süßeste"),
        (adjectives.FRESH, "frischer", "frischeste"),
    ],
)
def test_comparison(adjective, comparative, superlative):
    assert german.comparative(adjective) == comparative
    assert german.superlative(adjective, "nominative", "masculine") == superlative


UNITS = "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def parse_german(word: str) -> int:
    """Reads the largest parts first, as they are spoken."""
    for name, size in (("tausend", 1000), ("hundert", 100)):
        if name in word:
            count, rest = word.split(name, 1)
            return (1 if count == "ein" else parse_german(count)) * size + (parse_german(rest) if rest else 0)
    if word == "null":
        return 0
    for index, tens in enumerate(TENS):
        if word.endswith(tens):
            unit = word.removesuffix(tens).removesuffix("und")
            return 20 + 10 * index + (0 if not unit else 1 if unit == "ein" else UNITS.index(unit) + 1)
    if word.endswith("zehn") and word != "zehn":
        stem = {"sech": "sechs", "sieb": "sieben"}.get(word.removesuffix("zehn"), word.removesuffix("zehn"))
        return 10 + UNITS.index(stem) + 1
    return UNITS.index(word) + 1


@given(st.integers(0, 9999))
def test_number_words_parse_back_to_the_number(number):
    assert parse_german(german.number_words(number)) == number


def test_all_numbers_to_999_parse_back():
    assert [parse_german(german.number_words(number)) for number in range(1000)] == list(range(1000))


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (0, "null"),
        (1, "eins"),
        (16, "sechzehn"),
        (17, "siebzehn"),
        (21, "einundzwanzig"),
        (23, "dreiundzwanzig"),
        (30, "dreißig"),
        (66, "sechsundsechzig"),
        (77, "siebenundsiebzig"),
        (100, "einhundert"),
        (101, "einhunderteins"),
        (105, "einhundertfünf"),
        (612, "sechshundertzwölf"),
        (999, "neunhundertneunundneunzig"),
        (2345, "zweitausenddreihundertfünfundvierzig"),
    ],
)
def test_numbers_are_single_words(number, word):
    assert german.number_words(number) == word


def test_ordinals_of_a_month():
    expected = (
        "erste zweite dritte vierte fünfte sechste siebte achte neunte zehnte elfte zwölfte dreizehnte vierzehnte "
        "fünfzehnte sechzehnte siebzehnte achtzehnte neunzehnte zwanzigste einundzwanzigste zweiundzwanzigste "
        "dreiundzwanzigste vierundzwanzigste fünfundzwanzigste sechsundzwanzigste siebenundzwanzigste "
        "achtundzwanzigste neunundzwanzigste dreißigste einunddreißigste"
    )
    assert [german.ordinal(day) for day in range(1, 32)] == expected.split()
    assert german.ordinal(3, "en") == "dritten"


@pytest.mark.parametrize(
    ("hour", "minute", "text"),
    [
        (7, 0, "sieben Uhr"),
        (1, 0, "ein Uhr"),
        (7, 30, "halb acht"),
        (12, 30, "halb eins"),
        (3, 15, "Viertel nach drei"),
        (3, 45, "Viertel vor vier"),
        (12, 45, "Viertel vor eins"),
        (5, 10, "zehn nach fünf"),
        (5, 25, "fünf vor halb sechs"),
        (5, 35, "fünf nach halb sechs"),
        (5, 40, "zwanzig vor sechs"),
    ],
)
def test_clock_times(hour, minute, text):
    assert german.clock_time(hour, minute) == text


YESTERDAY = Adjunct("yesterday", "gestern")


def picking_up(**parts):
    phrase = NounPhrase(nouns.SISTER, "own", adjectives=(adjectives.LITTLE,))
    return Clause(subject=Name("Anna", "she"), predicate=Predicate(verbs.PICK_UP, phrase), **parts)


def test_main_clause_has_the_verb_second_and_the_rest_of_it_last():
    assert german.main_clause(picking_up()) == "Anna holt ihre kleine Schwester ab"
    assert german.main_clause(picking_up(tense="past", time=YESTERDAY)) == (
        "Anna hat gestern ihre kleine Schwester abgeholt"
    )
    assert german.main_clause(picking_up(tense="past"), first="gestern") == (
        "gestern hat Anna ihre kleine Schwester abgeholt"
    )
    assert german.main_clause(picking_up(modal="have to")) == "Anna muss ihre kleine Schwester abholen"
    assert german.main_clause(picking_up(tense="future")) == "Anna wird ihre kleine Schwester abholen"


def test_subordinate_clause_has_the_finite_verb_last():
    assert german.subordinate_clause(picking_up(), first="weil") == "weil Anna ihre kleine Schwester abholt"
    assert german.subordinate_clause(picking_up(tense="past"), first="dass") == (
        "dass Anna ihre kleine Schwester abgeholt hat"
    )
    assert german.subordinate_clause(picking_up(modal="want to"), first="wenn") == (
        "wenn Anna ihre kleine Schwester abholen will"
    )


def test_negation_follows_known_objects_and_time_and_precedes_places():
    assert german.main_clause(picking_up(tense="past", time=YESTERDAY, is_negated=True)) == (
        "Anna hat ihre kleine Schwester gestern nicht abgeholt"
    )
    going = Predicate(verbs.GO, complements=(Adjunct("to the park", "in den Park"),))
    assert german.main_clause(Clause(subject=Pronoun("we"), predicate=going, tense="past", is_negated=True)) == (
        "wir sind nicht in den Park gegangen"
    )


def test_any_is_kein_without_nicht():
    bread = Predicate(verbs.BUY, NounPhrase(nouns.BREAD, "any"))
    clause = Clause(subject=Pronoun("he"), predicate=bread, tense="past", is_negated=True)
    assert german.main_clause(clause) == "er hat kein Brot gekauft"


def test_dative_precedes_accusative_unless_both_are_pronouns():
    brother, ball = NounPhrase(nouns.BROTHER, "own"), NounPhrase(nouns.BALL, "a")

    def giving(thing, recipient):
        return german.main_clause(Clause(subject=Pronoun("she"), predicate=Predicate(verbs.GIVE, thing, recipient)))

    assert giving(ball, brother) == "sie gibt ihrem Bruder einen Ball"
    assert giving(ball, Pronoun("I")) == "sie gibt mir einen Ball"
    assert giving(Pronoun("it", "masculine"), brother) == "sie gibt ihn ihrem Bruder"
    assert giving(Pronoun("it", "masculine"), Pronoun("I")) == "sie gibt ihn mir"


def test_zu_clauses_and_commands():
    close = Predicate(verbs.CLOSE, NounPhrase(nouns.DOOR, "the"))
    assert german.zu_clause(close, "he") == "die Tür zuzumachen"
    assert german.zu_clause(close, "he", first="um") == "um die Tür zuzumachen"
    assert german.command(close, please=True) == "mach bitte die Tür zu"
    assert german.command(close, is_polite=True, please=True) == "machen Sie bitte die Tür zu"
    assert german.command(close, is_negated=True) == "mach die Tür nicht zu"


def test_verbs_with_a_prefix_do_not_borrow_the_preterite_of_the_simple_verb():
    getting_up = Clause(subject=Pronoun("we"), predicate=Predicate(verbs.GET_UP), tense="past")
    assert german.main_clause(getting_up) == "wir sind aufgestanden"


def test_verb_entries_read_dictionary_notation():
    entry = verb("come", "an|kommen kommt ist angekommen")
    assert (entry.prefix, entry.german, entry.takes_sein, entry.participle) == ("an", "kommen", True, "angekommen")
