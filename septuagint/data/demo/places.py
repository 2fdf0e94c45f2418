"""Statements of where people and things are, where they are put, and what there is."""

from septuagint.data.demo import adverbs, english, german, nouns, verbs
from septuagint.data.demo.lexicon import Adjunct, Noun, NounClass, Preposition, Verb
from septuagint.data.demo.meaning import Clause, Complement, NounPhrase, Participant, Predicate, Prepositional, Tense
from septuagint.data.demo.participants import THE, THE_PLURAL, A, counted, noun_phrases, people
from septuagint.data.demo.predicates import ALL_PLACES, AT_HOME, being_at, clause_of, event
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted
from septuagint.data.demo.statements import Pair, pair, past_times, say, say_after

# Where a thing lies or stands, and where it is put: the same German preposition with dative or accusative.
TWO_WAY = {
    adverbs.ON: adverbs.ONTO,
    adverbs.UNDER: adverbs.PUT_UNDER,
    adverbs.NEXT_TO: adverbs.PUT_NEXT_TO,
    adverbs.BEHIND: adverbs.PUT_BEHIND,
    adverbs.IN_FRONT_OF: adverbs.PUT_IN_FRONT_OF,
    adverbs.IN: adverbs.PUT_INTO,
}
SPOTS: tuple[tuple[Preposition, Noun], ...] = (
    *((adverbs.ON, noun) for noun in (nouns.TABLE, nouns.KITCHEN_TABLE, nouns.DESK, nouns.CHAIR)),
    *((adverbs.UNDER, noun) for noun in (nouns.TABLE, nouns.BED, nouns.CHAIR, nouns.DESK)),
    *((adverbs.NEXT_TO, noun) for noun in (nouns.BED, nouns.SOFA, nouns.CUPBOARD, nouns.ARMCHAIR, nouns.DOOR)),
    *((adverbs.BEHIND, noun) for noun in (nouns.DOOR, nouns.SOFA)),
    *((adverbs.IN_FRONT_OF, noun) for noun in (nouns.DOOR, nouns.WINDOW, nouns.CUPBOARD)),
    (adverbs.IN, nouns.CUPBOARD),
)
TABLE_SPOTS = ((adverbs.ON, nouns.TABLE), (adverbs.ON, nouns.KITCHEN_TABLE), (adverbs.IN, nouns.CUPBOARD))
FLOOR_SPOTS = tuple(spot for spot in SPOTS if spot[0] in (adverbs.NEXT_TO, adverbs.BEHIND, adverbs.IN_FRONT_OF))
CLOTHES_SPOTS = (
    (adverbs.ON, nouns.CHAIR),
    (adverbs.ON, nouns.BED),
    (adverbs.ON, nouns.SOFA),
    (adverbs.IN, nouns.CUPBOARD),
)
LYING = ((nouns.LYING_THINGS, SPOTS), (nouns.CLOTHES, CLOTHES_SPOTS), (nouns.CUTLERY, TABLE_SPOTS))
STANDING = ((nouns.TABLEWARE, TABLE_SPOTS), (nouns.STANDING_THINGS, FLOOR_SPOTS))
ROOMY = tuple((adverbs.IN, place.noun) for place in adverbs.ROOM_PLACES)


def _spot(spot: tuple[Preposition, Noun]) -> Prepositional:
    preposition, noun = spot
    return Prepositional(preposition, NounPhrase(noun, "the"))


def _goal(spot: tuple[Preposition, Noun]) -> Prepositional:
    preposition, noun = spot
    return Prepositional(TWO_WAY[preposition], NounPhrase(noun, "the"))


def _located() -> tuple[tuple[Verb, NounClass, tuple[tuple[Preposition, Noun], ...]], ...]:
    return (
        *((verbs.LIE, things, spots) for things, spots in LYING),
        *((verbs.STAND, things, spots) for things, spots in STANDING),
        (verbs.STAND, nouns.FURNITURE, ROOMY),
        (verbs.HANG, nouns.HANGING, tuple((adverbs.ON_WALL, noun) for noun in (nouns.WALL,))),
    )


def thing_location() -> Space[Pair]:
    """The book is on the table. / Das Buch liegt auf dem Tisch."""

    def build(verb: Verb, thing: NounPhrase, spot: Prepositional, tense: Tense) -> Pair:
        return say(Clause(subject=thing, predicate=Predicate(verb, complements=(spot,)), tense=tense))

    both: Space[Tense] = one_of(["present", "past"])
    now: Space[Tense] = one_of(["present"])
    return any_of(
        *(
            product(
                build,
                one_of([verb]),
                noun_phrases(things, THE, ("my", False), ("your", False), THE_PLURAL),
                one_of([_spot(spot) for spot in spots]),
                now if verb is verbs.HANG else both,
            )
            for verb, things, spots in _located()
        )
    )


def several_things_there() -> Space[Pair]:
    """There are three apples on the table. / Auf dem Tisch liegen drei Äpfel."""

    def build(verb: Verb, things: NounPhrase, spot: Prepositional) -> Pair:
        be = english.be("present", things.person)
        clause = Clause(subject=things, predicate=Predicate(verb))
        return pair(
            english.join("there", be, english.phrase(things), english.complement(spot)),
            german.main_clause(clause, first=german.complement(spot)),
        )

    surfaces = one_of([_spot(spot) for spot in SPOTS if spot[0] in (adverbs.ON, adverbs.NEXT_TO, adverbs.UNDER)])
    tables = one_of([_spot(spot) for spot in SPOTS[:2]])
    rooms = one_of([_spot(spot) for spot in ROOMY])
    return any_of(
        product(
            build, one_of([verbs.LIE]), weighted((2, counted(nouns.FRUIT)), (1, noun_phrases(nouns.FRUIT, A))), tables
        ),
        product(
            build,
            one_of([verbs.LIE]),
            any_of(counted(nouns.LYING_THINGS), noun_phrases(nouns.LYING_THINGS, A)),
            surfaces,
        ),
        product(
            build, one_of([verbs.STAND]), any_of(counted(nouns.TABLEWARE), noun_phrases(nouns.TABLEWARE, A)), tables
        ),
        product(
            build,
            one_of([verbs.STAND]),
            any_of(counted(nouns.FURNITURE, range(2, 7)), noun_phrases(nouns.FURNITURE, A)),
            rooms,
        ),
    )


def facilities_there() -> Space[Pair]:
    """There is a small park in this city. / In dieser Stadt gibt es einen kleinen Park."""

    def build(thing: NounPhrase, place: Adjunct) -> Pair:
        be = english.be("present", thing.person)
        return pair(
            english.join("there", be, english.phrase(thing), place.english),
            german.join(place.german, "gibt es", german.phrase(thing, "accusative")),
        )

    places = [Adjunct("in this city", "in dieser Stadt"), Adjunct("in our village", "in unserem Dorf")]
    cities = [Adjunct(f"in {city.english}", f"in {city.german}") for city in adverbs.CITIES]
    present = any_of(noun_phrases(nouns.FACILITIES, A), counted(nouns.FACILITIES, range(2, 21)))
    missing = noun_phrases(NounClass(nouns.FACILITIES.nouns, ()), ("no", False))
    return weighted((3, product(build, present, one_of(places + cities))), (1, product(build, missing, one_of(places))))


def putting_things() -> Space[Pair]:
    """Anna put the cup on the table. / Anna hat die Tasse auf den Tisch gestellt."""

    def build(subject: Participant, verb: Verb, thing: NounPhrase, goal: Prepositional, tense: Tense) -> Pair:
        return say(clause_of(event(subject, Predicate(verb, thing, complements=(goal,))), tense))

    tenses: Space[Tense] = one_of(["past", "future", "progressive"])
    to_rooms = one_of([_goal(spot) for spot in ROOMY])
    on_wall = one_of([Prepositional(adverbs.HANG_ON, NounPhrase(nouns.WALL, "the"))])
    small = [
        product(
            build,
            people(),
            one_of([verb]),
            noun_phrases(things, THE, THE_PLURAL),
            one_of([_goal(spot) for spot in spots]),
            tenses,
        )
        for verb, group in ((verbs.LAY, LYING), (verbs.STAND_UP, STANDING))
        for things, spots in group
    ]
    return any_of(
        *small,
        product(build, people(), one_of([verbs.STAND_UP]), noun_phrases(nouns.FURNITURE, THE), to_rooms, tenses),
        product(build, people(), one_of([verbs.HANG_UP]), noun_phrases(nouns.HANGING, A, THE), on_wall, tenses),
    )


def person_spots() -> list[Complement]:
    return [AT_HOME, *(being_at(place) for place in ALL_PLACES + adverbs.ROOM_PLACES)]


def person_location() -> Space[Pair]:
    """My mother is at the market. Yesterday the children were in the garden."""

    def now(subject: Participant, spot: Complement, is_negated: bool) -> Pair:
        return say(Clause(subject=subject, predicate=Predicate(verbs.BE, complements=(spot,)), is_negated=is_negated))

    def then(subject: Participant, spot: Complement, time: Adjunct) -> Pair:
        clause = Clause(subject=subject, predicate=Predicate(verbs.BE, complements=(spot,)), tense="past")
        return say_after(time, clause)

    return any_of(
        product(now, people(), one_of(person_spots()), one_of([False, True])),
        product(then, people(), one_of(person_spots()), past_times()),
    )


def living_somewhere() -> Space[Pair]:
    """My uncle lives in a small house in Vienna."""

    def build(subject: Participant, home: NounPhrase, place: Adjunct) -> Pair:
        whole = Adjunct(
            f"in {english.phrase(home)} {place.english}", f"in {german.phrase(home, 'dative')} {place.german}"
        )
        return say(Clause(subject=subject, predicate=Predicate(verbs.LIVE, complements=(whole,))))

    def build_short(subject: Participant, place: Adjunct) -> Pair:
        return say(Clause(subject=subject, predicate=Predicate(verbs.LIVE, complements=(place,))))

    cities = one_of([Adjunct(f"in {city.english}", f"in {city.german}") for city in adverbs.CITIES + adverbs.COUNTRIES])
    near = one_of(
        [
            Adjunct(f"{preposition.english} the {noun.english}", german.complement(_spot((preposition, noun))))
            for preposition in (adverbs.NEXT_TO, adverbs.BEHIND)
            for noun in (
                nouns.CHURCH,
                nouns.SCHOOL,
                nouns.STATION,
                nouns.TOWN_HALL,
                nouns.PARK,
                nouns.HOSPITAL,
                nouns.BANK,
            )
        ]
    )
    homes = noun_phrases(nouns.HOMES, A)
    return any_of(
        product(build, people(), homes, cities),
        product(build_short, people(), cities),
        product(build_short, people(), near),
    )
