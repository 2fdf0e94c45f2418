"""Sentences of several verbs: infinitives with zu, purposes, and coordinated clauses."""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, english, german, nouns, verbs
from septuagint.data.demo.deeds import EVERYDAY, GROWN_UP
from septuagint.data.demo.descriptions import being
from septuagint.data.demo.lexicon import Adjective, Adjunct, NounClass, Verb
from septuagint.data.demo.meaning import Clause, NounPhrase, Participant, Predicate, Tense, pronoun_for
from septuagint.data.demo.participants import (
    BARE_PLURAL,
    MASS,
    OWN,
    POSSESSORS,
    SPEAKERS,
    THE,
    A,
    adults,
    anyone,
    descendants,
    noun_phrases,
    own_relatives,
    people,
    possessed,
)
from septuagint.data.demo.predicates import (
    HOME,
    Event,
    activities,
    chores,
    clause_of,
    encounters,
    event,
    known_table,
    ownerless,
    pastimes,
    walks,
    with_objects,
)
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted
from septuagint.data.demo.statements import Pair, future_times, joined, pair, past_times


def forgotten_or_tried() -> Space[Pair]:
    """Paul forgot to close the window. / Paul hat vergessen, das Fenster zuzumachen."""

    def build(what: Event, verb: Verb, tense: Tense) -> Pair:
        subject, predicate = what
        main = Clause(subject=subject, predicate=Predicate(verb), tense=tense)
        return pair(
            english.join(english.statement(main), "to", english.infinitive(predicate, subject.person)),
            german.join(german.main_clause(main), ",", german.zu_clause(predicate, subject.person)),
        )

    past: Space[Tense] = one_of(["past"])
    future: Space[Tense] = one_of(["future", "past"])
    return any_of(
        product(build, forgettable(), one_of([verbs.FORGET]), past),
        product(build, efforts(), one_of([verbs.TRY]), future),
    )


def efforts() -> Space[Event]:
    """What may fail."""
    hard = (
        verbs.REPAIR,
        verbs.OPEN,
        verbs.CLOSE,
        verbs.READ,
        verbs.BAKE,
        verbs.SELL,
        verbs.FEED,
        verbs.PAINT,
        verbs.BUILD,
    )
    return any_of(
        product(event, people(), with_objects([line for line in EVERYDAY if line[0] in hard])),
        product(event, adults(), with_objects([line for line in GROWN_UP if line[0] in hard])),
        product(
            event,
            descendants(),
            product(lambda verb, one: Predicate(verb, one), one_of([verbs.CALL, verbs.HELP]), own_relatives()),
        ),
    )


FORGETTABLE = (
    verbs.OPEN,
    verbs.CLOSE,
    verbs.SWITCH_ON,
    verbs.SWITCH_OFF,
    verbs.FEED,
    verbs.WATER,
    verbs.WASH,
    verbs.CLEAN,
    verbs.TIDY_UP,
)


def forgettable() -> Space[Event]:
    duties = with_objects([line for line in known_table(EVERYDAY) if line[0] in FORGETTABLE])
    calls = product(_predicate, one_of([verbs.CALL, verbs.PICK_UP, verbs.INVITE, verbs.THANK]), own_relatives())
    return weighted(
        (3, product(event, people(), duties)),
        (1, product(event, descendants(), calls)),
        (1, product(event, adults(), with_objects([(verbs.PAY, NounClass((nouns.BILL,), ()), (THE,))]))),
    )


def _predicate(verb: Verb, phrase: NounPhrase) -> Predicate:
    return Predicate(verb, phrase)


def no_time() -> Space[Pair]:
    """My mother has no time to go shopping. / Meine Mutter hat keine Zeit einzukaufen."""

    def build(what: Event, tense: Tense) -> Pair:
        subject, predicate = what
        main = Clause(subject=subject, predicate=Predicate(verbs.HAVE, NounPhrase(nouns.TIME, "no")), tense=tense)
        return pair(
            english.join(english.statement(main), "to", english.infinitive(predicate, subject.person)),
            german.join(german.main_clause(main), ",", german.zu_clause(predicate, subject.person)),
        )

    tenses: Space[Tense] = one_of(["present", "past"])
    return product(build, activities(), tenses)


def judgement() -> Space[Pair]:
    """It is difficult to repair this car. / Es ist schwierig, dieses Auto zu reparieren."""

    def build(quality: Adjective, is_negated: bool, predicate: Predicate) -> Pair:
        it = english.join("it is", "not" if is_negated else "", quality.english, "to")
        es = german.join("es ist", "nicht" if is_negated else "", quality.german)
        return pair(
            english.join(it, english.infinitive(predicate, "we")),
            german.join(es, ",", german.zu_clause(predicate, "we")),
        )

    table = EVERYDAY + GROWN_UP
    hard = any_of(
        with_objects(
            [line for line in ownerless(table) if line[0] in (verbs.REPAIR, verbs.BAKE, verbs.PAINT, verbs.SELL)]
        ),
        learning(),
    )
    useful = any_of(
        with_objects([line for line in ownerless(table) if line[0] in FORGETTABLE]),
        learning(),
    )
    return any_of(
        product(build, one_of([of.DIFFICULT, of.EASY]), one_of([False, True]), hard),
        product(build, one_of([of.IMPORTANT]), one_of([False, True]), useful),
    )


def learning() -> Space[Predicate]:
    skills = [*((verbs.LEARN, one) for one in adverbs.LANGUAGES), *((verbs.PLAY, one) for one in adverbs.INSTRUMENTS)]
    return one_of([Predicate(verb, complements=(skill,)) for verb, skill in skills])


def purpose() -> Space[Pair]:
    """Anna went to the bakery to buy bread. / Anna ist zur Bäckerei gegangen, um Brot zu kaufen."""

    def build(subject: Participant, errand: tuple[Adjunct, Predicate], tense: Tense) -> Pair:
        place, aim = errand
        main = clause_of(event(subject, Predicate(verbs.GO, complements=(place,))), tense)
        return pair(
            english.join(english.statement(main), "to", english.infinitive(aim, subject.person)),
            german.join(german.main_clause(main), ",", german.zu_clause(aim, subject.person, first="um")),
        )

    def errand(place: Adjunct, aim: Predicate) -> tuple[Adjunct, Predicate]:
        return place, aim

    def build_then(time: Adjunct, subject: Participant, errand: tuple[Adjunct, Predicate], tense: Tense) -> Pair:
        place, aim = errand
        main = clause_of(event(subject, Predicate(verbs.GO, complements=(place,))), tense)
        return pair(
            english.join(english.statement(main, first=time.english), "to", english.infinitive(aim, subject.person)),
            german.join(
                german.main_clause(main, first=time.german), ",", german.zu_clause(aim, subject.person, first="um")
            ),
        )

    past: Space[Tense] = one_of(["past"])
    future: Space[Tense] = one_of(["future"])
    tenses: Space[Tense] = one_of(["past", "future", "progressive"])
    shopping = any_of(*(product(errand, one_of([place]), with_objects(aims)) for place, aims in ERRANDS))
    fetching = product(
        errand,
        one_of([TO_STATION, TO_AIRPORT]),
        product(lambda one: Predicate(verbs.PICK_UP, one), own_relatives()),
    )
    return any_of(
        product(build, people(), shopping, tenses),
        product(build_then, past_times(), people(), shopping, past),
        product(build_then, future_times(), people(), shopping, future),
        product(build_then, past_times(), descendants(), fetching, past),
    )


TO_STATION = Adjunct("to the station", "zum Bahnhof")
TO_AIRPORT = Adjunct("to the airport", "zum Flughafen")
ERRANDS = (
    (
        Adjunct("to the supermarket", "zum Supermarkt"),
        [
            (verbs.BUY, nouns.FRUIT, (BARE_PLURAL,)),
            (verbs.BUY, nouns.VEGETABLES, (BARE_PLURAL,)),
            (verbs.BUY, nouns.FOODSTUFFS, (MASS,)),
            (verbs.BUY, nouns.GROCERIES, (MASS,)),
            (verbs.BUY, nouns.COLD_DRINKS, (MASS,)),
        ],
    ),
    (
        Adjunct("to the market", "auf den Markt"),
        [(verbs.BUY, nouns.FRUIT, (BARE_PLURAL,)), (verbs.BUY, nouns.VEGETABLES, (BARE_PLURAL,))],
    ),
    (
        Adjunct("to the bakery", "zur Bäckerei"),
        [
            (verbs.BUY, nouns.BAKERY_GOODS, (A, BARE_PLURAL)),
            (verbs.BUY, NounClass((nouns.BREAD,), (of.FRESH,)), (MASS,)),
        ],
    ),
    (Adjunct("to the library", "in die Bibliothek"), [(verbs.READ, nouns.READING, (A,))]),
    (
        Adjunct("to the cinema", "ins Kino"),
        [(verbs.WATCH, NounClass((nouns.FILM,), (of.NEW, of.FUNNY, of.SAD)), (A, THE))],
    ),
    (
        Adjunct("to the café", "ins Café"),
        [(verbs.DRINK, nouns.TEAS, (MASS,)), (verbs.EAT, NounClass((nouns.CAKE,), (of.DELICIOUS,)), (A,))],
    ),
    (
        Adjunct("into the garden", "in den Garten"),
        [
            (verbs.WATER, NounClass(nouns.PLANTS.nouns, ()), (("the", True),)),
            (verbs.PLANT, nouns.PLANTS, (A,)),
            (verbs.FEED, nouns.HUNGRY_PETS, (THE, OWN)),
        ],
    ),
    (
        Adjunct("into the kitchen", "in die Küche"),
        [
            (verbs.BAKE, nouns.CAKES, (A,)),
            (verbs.PEEL, nouns.PEELABLE, (("the", True),)),
            (verbs.COOK, nouns.COOKABLE, (MASS,)),
            (verbs.WASH, nouns.DISHES_TO_WASH, (("the", True),)),
        ],
    ),
)


def two_people() -> Space[Pair]:
    """My father is washing the car, and my mother is reading a book. Anna went home, but Paul stayed at school."""

    def build(
        first: Participant, second: Participant, deeds: tuple[Predicate, Predicate], conjunction: Adjunct, tense: Tense
    ) -> Pair:
        return joined(clause_of(event(first, deeds[0]), tense), conjunction, clause_of(event(second, deeds[1]), tense))

    def both(one: Predicate, other: Predicate) -> tuple[Predicate, Predicate]:
        return one, other

    women: Space[Participant] = any_of(
        anyone(one_of(adverbs.WOMEN)),
        anyone(possessed((nouns.MOTHER, nouns.SISTER, nouns.DAUGHTER), SPEAKERS)),
    )
    men: Space[Participant] = any_of(
        anyone(one_of(adverbs.MEN)),
        anyone(possessed((nouns.FATHER, nouns.BROTHER, nouns.SON), SPEAKERS)),
    )
    conjunctions = one_of([adverbs.AND])
    tenses: Space[Tense] = one_of(["past", "progressive", "future"])
    deeds = any_of(product(both, chores(), chores()), product(both, pastimes(), pastimes()))
    return any_of(
        product(build, women, men, deeds, conjunctions, tenses), product(build, men, women, deeds, conjunctions, tenses)
    )


def one_after_the_other() -> Space[Pair]:
    """Lisa came home and fed the cat. / Lisa ist nach Hause gekommen und hat die Katze gefüttert."""

    def build(what: Event, beginning: Predicate) -> Pair:
        subject, predicate = what
        first = Clause(subject=subject, predicate=beginning, tense="past")
        second = Clause(subject=subject, predicate=predicate, tense="past")
        fields = german.bracket(second)
        second_verb = english.past(predicate.verb.english.partition(" ")[0])
        return pair(
            english.join(
                english.statement(first), "and", second_verb, english.predicate_rest(predicate, subject.person)
            ),
            german.join(german.main_clause(first), "und", fields.finite, fields.middle, fields.final),
        )

    home = one_of(
        [
            Predicate(verbs.COME, complements=(HOME,)),
            Predicate(verbs.GO, complements=(HOME,)),
            Predicate(verbs.GET_UP, complements=(Adjunct("early", "früh"),)),
        ]
    )
    kitchen = one_of([Predicate(verbs.GO, complements=(Adjunct("into the kitchen", "in die Küche"),))])
    kitchen_work = (verbs.COOK, verbs.MAKE, verbs.BAKE, verbs.PEEL, verbs.DRINK, verbs.EAT)
    cooking = with_objects([line for line in EVERYDAY if line[0] in kitchen_work])
    return any_of(
        product(build, product(event, people(), chores()), home),
        product(build, product(event, people(), cooking), kitchen),
    )


def wanted_but() -> Space[Pair]:
    """Tom wanted to call his aunt, but he had no time. / Tom wollte seine Tante anrufen, aber er hatte keine Zeit."""

    def build(what: Event, obstacle: Predicate) -> Pair:
        subject, predicate = what
        wish = Clause(subject=subject, predicate=predicate, tense="past", modal="want to")
        return joined(wish, adverbs.BUT, Clause(subject=pronoun_for(subject), predicate=obstacle, tense="past"))

    obstacles = one_of(
        [
            Predicate(verbs.HAVE, NounPhrase(nouns.TIME, "no")),
            Predicate(verbs.HAVE, complements=(Adjunct("a headache", "Kopfschmerzen"),)),
            being(of.TIRED),
            being(of.TIRED, Adjunct("too", "zu")),
            being(of.ILL),
        ]
    )
    tiring = any_of(
        product(event, people(), chores()),
        product(event, people(), walks()),
        product(event, descendants(), encounters()),
    )
    return product(build, tiring, obstacles)


def bought_but_unsuitable() -> Space[Pair]:
    """Tom bought a coat, but it is too small. / Tom hat einen Mantel gekauft, aber er ist zu klein."""

    def build(subject: Participant, thing: NounPhrase, flaw: Predicate) -> Pair:
        buying = Clause(subject=subject, predicate=Predicate(verbs.BUY, thing), tense="past")
        return joined(buying, adverbs.BUT, Clause(subject=pronoun_for(thing), predicate=flaw))

    too = Adjunct("too", "zu")
    flaws = {
        nouns.CLOTHES: (of.SMALL, of.BIG),
        nouns.SHOES_AS_PAIRS: (of.SMALL, of.BIG),
        nouns.FURNITURE: (of.SMALL, of.BIG, of.HEAVY),
        nouns.MACHINES: (of.LOUD, of.SLOW, of.OLD),
        nouns.OWN_VEHICLES: (of.SLOW, of.SMALL, of.OLD),
    }
    return any_of(
        *(
            product(
                build,
                adults(),
                noun_phrases(
                    NounClass(things.nouns, (of.NEW, of.BEAUTIFUL), things.colours),
                    ("", True) if things is nouns.SHOES_AS_PAIRS else A,
                ),
                one_of([being(flaw, too) for flaw in qualities]),
            )
            for things, qualities in flaws.items()
        )
    )


def profession() -> Space[Pair]:
    """My sister is a nurse. / Meine Schwester ist Krankenschwester."""

    def build(person: NounPhrase, job: Adjunct, ending: Adjunct) -> Pair:
        work = Adjunct(english.join("a", job.english, ending.english), german.join(job.german, ending.german))
        return pair(
            english.join(english.phrase(person), "is", work.english),
            german.join(german.phrase(person, "nominative"), "ist", work.german),
        )

    female = tuple(noun for noun in nouns.RELATIVES.nouns if noun.person == "she")
    male = tuple(noun for noun in nouns.RELATIVES.nouns + nouns.ACQUAINTANCES.nouns if noun.person == "he")
    places = one_of(
        [
            Adjunct("", ""),
            *(Adjunct(f"in {city.english}", f"in {city.german}") for city in adverbs.COUNTRIES),
        ]
    )
    return any_of(
        product(
            build,
            possessed(female, POSSESSORS),
            one_of([Adjunct(noun.english, noun.german) for noun in nouns.WOMEN_AT_WORK]),
            places,
        ),
        product(
            build,
            possessed(male, POSSESSORS),
            one_of([Adjunct(noun.english, noun.german) for noun in nouns.MEN_AT_WORK]),
            places,
        ),
    )
