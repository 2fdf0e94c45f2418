"""Spaces of what people do: verbs with the objects and places that make sense for them."""

from collections.abc import Callable, Sequence
from functools import cache

from septuagint.data.demo import adverbs, german, nouns, verbs
from septuagint.data.demo.deeds import (
    DRESSING,
    DRESSING_UP,
    EVERYDAY,
    GROWN_UP,
    HABITUAL,
    SEARCHING,
    SUDDEN,
    Transitive,
    plain,
)
from septuagint.data.demo.lexicon import Adjunct, Noun, Place, Verb
from septuagint.data.demo.meaning import (
    Clause,
    Complement,
    Modal,
    Name,
    NounPhrase,
    Participant,
    Predicate,
    Prepositional,
    Tense,
)
from septuagint.data.demo.participants import (
    BARE_PLURAL,
    KNOWN_FORMS,
    MASS,
    THE,
    A,
    Form,
    adults,
    anyone,
    counted,
    descendants,
    individuals,
    minors,
    noun_phrases,
    others,
    own_relatives,
    people,
    with_named_objects,
    women,
)
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted

Event = tuple[Participant, Predicate]


def event(subject: Participant, predicate: Predicate) -> Event:
    return subject, predicate


def with_objects(table: Sequence[Transitive]) -> Space[Predicate]:
    """Each verb is drawn equally often, whatever the number of lines it has."""
    by_verb: dict[Verb, list[Space[Predicate]]] = {}
    for verb, noun_class, forms in table:
        by_verb.setdefault(verb, []).append(product(_predicate(verb), noun_phrases(noun_class, *forms)))
    return any_of(*(any_of(*spaces) for spaces in by_verb.values()))


def _predicate(verb: Verb) -> Callable[[Participant], Predicate]:
    return lambda phrase: Predicate(verb, phrase)


def known_table(table: Sequence[Transitive]) -> list[Transitive]:
    """Only the lines and forms in which the object is known, so that it is negated by nicht."""
    known = [(verb, nouns_, tuple(form for form in forms if form in KNOWN_FORMS)) for verb, nouns_, forms in table]
    return [line for line in known if line[2]]


def _any(table: Sequence[Transitive]) -> list[Transitive]:
    """Only the lines with a bare plural or mass noun, negated by "not any" and kein, and without adjectives."""
    lines: list[Transitive] = []
    for verb, noun_class, forms in table:
        any_forms: tuple[Form, ...] = tuple(("any", is_plural) for determiner, is_plural in forms if determiner == "")
        if any_forms:
            lines.append((verb, plain(noun_class), any_forms))
    return lines


def being_at(place: Place) -> Prepositional:
    return Prepositional(place.where, NounPhrase(place.noun, "the"))


def going_to(place: Place) -> Prepositional:
    return Prepositional(place.whither, NounPhrase(place.noun, "the"))


def doing(verb: Verb, complements: Sequence[Complement]) -> Space[Predicate]:
    return one_of([Predicate(verb, complements=(complement,)) for complement in complements])


HOME = Adjunct("home", "nach Hause")
AT_HOME = Adjunct("at home", "zu Hause")
TO_SCHOOL = Adjunct("to school", "zur Schule")
TO_WORK = Adjunct("to work", "zur Arbeit")
TO_BED = Adjunct("to bed", "ins Bett")
LEISURE_PLACES = adverbs.OUTDOOR_PLACES + tuple(
    place for place in adverbs.INDOOR_PLACES if place.noun not in (nouns.HOSPITAL, nouns.HOTEL)
)
ALL_PLACES = adverbs.OUTDOOR_PLACES + adverbs.INDOOR_PLACES + adverbs.ERRAND_PLACES
RIDES = (nouns.TRAIN, nouns.BUS, nouns.CAR)


def ownerless(table: Sequence[Transitive]) -> list[Transitive]:
    """Without "own", for clauses that have no subject to own anything."""
    lines = [(verb, things, tuple(form for form in forms if form[0] != "own")) for verb, things, forms in table]
    return [line for line in lines if line[2]]


LASTING = (
    verbs.READ,
    verbs.WRITE,
    verbs.COOK,
    verbs.MAKE,
    verbs.BAKE,
    verbs.PEEL,
    verbs.WASH,
    verbs.CLEAN,
    verbs.TIDY_UP,
    verbs.PLANT,
    verbs.WATER,
    verbs.FEED,
    verbs.PAINT,
    verbs.WATCH,
)


@cache
def chores() -> Space[Predicate]:
    """What keeps one busy for a while, at home."""
    return with_objects([line for line in EVERYDAY if line[0] in LASTING])


@cache
def walks() -> Space[Predicate]:
    """Going somewhere on foot."""
    return weighted(
        (3, doing(verbs.GO, [going_to(place) for place in ALL_PLACES])),
        (1, doing(verbs.GO, [HOME])),
        (1, doing(verbs.RUN, [Prepositional(adverbs.THROUGH, NounPhrase(noun, "the")) for noun in RUNNING_GROUND])),
    )


RUNNING_GROUND = (nouns.PARK, nouns.FOREST, nouns.GARDEN, nouns.CITY)


@cache
def steps() -> Space[Predicate]:
    """Going from room to room, and carrying things there: done now, not planned for next week."""

    def carry(load: NounPhrase, place: Place) -> Predicate:
        return Predicate(verbs.CARRY, load, complements=(going_to(place),))

    rooms = adverbs.ROOM_PLACES
    return any_of(
        doing(verbs.GO, [going_to(place) for place in rooms]),
        product(carry, noun_phrases(nouns.LOADS, THE), one_of((*rooms, adverbs.HOUSE, adverbs.GARDEN))),
    )


@cache
def sitting() -> Space[Predicate]:
    return one_of([Predicate(verbs.SIT, complements=(seat,)) for seat in SEATS])


SEATS = (
    Prepositional(adverbs.ON, NounPhrase(nouns.SOFA, "the")),
    Prepositional(adverbs.ON, NounPhrase(nouns.CHAIR, "the")),
    Prepositional(adverbs.IN, NounPhrase(nouns.ARMCHAIR, "the")),
    Prepositional(adverbs.AT, NounPhrase(nouns.TABLE, "the")),
    Prepositional(adverbs.AT, NounPhrase(nouns.DESK, "the")),
    *(being_at(place) for place in (adverbs.GARDEN, adverbs.PARK)),
    *(being_at(place) for place in adverbs.INDOOR_PLACES if place.noun in (nouns.CAFE, nouns.CINEMA, nouns.CHURCH)),
)


def to_city(city: Adjunct) -> Adjunct:
    return Adjunct(f"to {city.english}", f"nach {city.german}")


def by(vehicle: Noun) -> Adjunct:
    """by train / mit dem Zug"""
    return Adjunct(f"by {vehicle.english}", f"mit {german.phrase(NounPhrase(vehicle, 'the'), 'dative')}")


def ride(vehicle: Noun, destination: Complement) -> Predicate:
    return Predicate(verbs.TRAVEL, complements=(by(vehicle), destination))


@cache
def town_rides() -> Space[Predicate]:
    """Errands by tram or bicycle."""
    places = [place for place in adverbs.ERRAND_PLACES if place is not adverbs.BUS_STOP]
    return product(ride, one_of(TOWN_RIDES), one_of([going_to(place) for place in places]))


@cache
def journeys() -> Space[Predicate]:
    def fly(destination: Adjunct) -> Predicate:
        return Predicate(verbs.FLY, complements=(destination,))

    return weighted(
        (2, product(ride, one_of(RIDES), one_of([to_city(city) for city in adverbs.CITIES]))),
        (1, product(ride, one_of([nouns.TRAIN, nouns.CAR]), one_of([to_city(c) for c in adverbs.COUNTRIES]))),
        (1, product(fly, one_of([to_city(place) for place in adverbs.COUNTRIES + adverbs.CITIES]))),
    )


TOWN_RIDES = (nouns.BUS, nouns.TRAM, nouns.TAXI, nouns.BICYCLE)


@cache
def pastimes() -> Space[Predicate]:
    """Occupations without an object."""

    def play(sport: Adjunct, place: Place) -> Predicate:
        return Predicate(verbs.PLAY, complements=(being_at(place), sport))

    meadows = adverbs.OUTDOOR_PLACES[:2]
    return any_of(
        one_of([Predicate(verbs.SLEEP), Predicate(verbs.GO_SHOPPING), Predicate(verbs.WATCH_TV)]),
        doing(verbs.SLEEP, [being_at(place) for place in adverbs.ROOM_PLACES[1:3]]),
        doing(verbs.PLAY, adverbs.SPORTS + adverbs.INSTRUMENTS),
        product(play, one_of(adverbs.SPORTS[:2]), one_of(meadows)),
        doing(verbs.SWIM, [Prepositional(adverbs.IN, NounPhrase(noun, "the")) for noun in SWIMMING_WATER]),
        one_of([Predicate(verbs.DANCE), Predicate(verbs.SING), Predicate(verbs.COOK), Predicate(verbs.SWIM)]),
        doing(verbs.LEARN, adverbs.LANGUAGES),
        one_of([_wait(noun, place) for noun, places in AWAITED.items() for place in places]),
        doing(verbs.HIKE, [Adjunct("in the mountains", "in den Bergen"), being_at(adverbs.OUTDOOR_PLACES[2])]),
    )


@cache
def games() -> Space[Predicate]:
    """What children do where they like to be."""

    def play(toy: Noun, place: Place) -> Predicate:
        with_toy = Prepositional(adverbs.WITH, NounPhrase(toy, "the"))
        return Predicate(verbs.PLAY, complements=(being_at(place), with_toy))

    return any_of(
        doing(verbs.PLAY, [being_at(place) for place in PLAY_PLACES]),
        product(play, one_of([nouns.BALL, nouns.DOG, nouns.CAT]), one_of(PLAY_PLACES)),
        doing(verbs.GO, [TO_SCHOOL]),
    )


PLAY_PLACES = (*adverbs.OUTDOOR_PLACES, adverbs.ROOM_PLACES[0], adverbs.ROOM_PLACES[1])
SWIMMING_WATER = (nouns.LAKE, nouns.RIVER, nouns.SEA, nouns.POOL)
AWAITED: dict[Noun, tuple[Place | None, ...]] = {
    nouns.BUS: (None, adverbs.BUS_STOP),
    nouns.TRAIN: (None, adverbs.STATION),
    nouns.TRAM: (None,),
    nouns.TAXI: (None, adverbs.STATION, adverbs.AIRPORT),
}


def _wait(noun: Noun, place: Place | None) -> Predicate:
    awaited = Prepositional(adverbs.WAIT_FOR, NounPhrase(noun, "the"))
    return Predicate(verbs.WAIT, complements=(being_at(place), awaited) if place else (awaited,))


def _social(verb: Verb) -> Space[Predicate]:
    return product(_predicate(verb), weighted((2, anyone(own_relatives())), (1, others())))


@cache
def encounters() -> Space[Predicate]:
    """What one does with people, relatives among them."""
    accusative = (verbs.VISIT, verbs.MEET, verbs.CALL, verbs.PICK_UP, verbs.INVITE)
    dative = (verbs.HELP, verbs.THANK)
    return any_of(*(_social(verb) for verb in accusative + dative), product(_fetch, own_relatives(), one_of(ARRIVALS)))


@cache
def named_encounters() -> Space[Event]:
    """Paul visited Anna. / My uncle helped Mr. Weber."""
    verbs_ = one_of((verbs.VISIT, verbs.MEET, verbs.CALL, verbs.PICK_UP, verbs.INVITE, verbs.HELP, verbs.THANK))
    choices = with_named_objects(lambda names_: product(_predicate_of, verbs_, names_))
    return any_of(*(product(event, subjects, predicates) for subjects, predicates in choices))


ARRIVALS = (nouns.STATION, nouns.AIRPORT, nouns.BUS_STOP)


def _fetch(relative: NounPhrase, place: Noun) -> Predicate:
    origin = Prepositional(adverbs.FROM, NounPhrase(place, "the"))
    return Predicate(verbs.PICK_UP, relative, complements=(origin,))


@cache
def activities() -> Space[Event]:
    """Someone and something that they may be doing, want to do, or have done."""
    return weighted(
        (5, product(event, people(), with_objects(EVERYDAY))),
        (2, product(event, adults(), with_objects(GROWN_UP))),
        (2, product(event, people(), pastimes())),
        (1, product(event, minors(), games())),
        (1, product(event, individuals(), with_objects(DRESSING))),
        (1, product(event, women(), with_objects(DRESSING_UP))),
        (1, product(event, people(), walks())),
        (1, product(event, adults(), any_of(journeys(), town_rides()))),
        (2, product(event, descendants(), encounters())),
        (1, named_encounters()),
    )


@cache
def past_events() -> Space[Event]:
    bought = product(
        lambda noun_phrase: Predicate(verbs.BUY, noun_phrase),
        any_of(*(counted(goods) for goods in (nouns.PIECES, nouns.BAKING, nouns.CROCKERY, nouns.BOOKS))),
    )
    return weighted(
        (6, activities()),
        (2, product(event, people(), with_objects(SUDDEN + SEARCHING))),
        (1, any_of(product(event, people(), steps()), product(event, individuals(), sitting()))),
        (1, product(event, adults(), bought)),
    )


@cache
def known_activities() -> Space[Event]:
    """Activities whose object is known, which nicht can negate."""
    return weighted(
        (4, product(event, people(), with_objects(known_table(EVERYDAY)))),
        (2, product(event, adults(), with_objects(known_table(GROWN_UP)))),
        (1, product(event, people(), walks())),
        (2, product(event, descendants(), product(_predicate_of, one_of(SOCIAL_VERBS), own_relatives()))),
    )


SOCIAL_VERBS = (verbs.VISIT, verbs.CALL, verbs.PICK_UP, verbs.INVITE, verbs.HELP, verbs.THANK, verbs.ANSWER)


def _predicate_of(verb: Verb, phrase: NounPhrase | Name) -> Predicate:
    return Predicate(verb, phrase)


@cache
def misunderstandings() -> Space[Event]:
    """What people fail at rather than decide against."""
    failures = [line for line in known_table(SUDDEN) if line[0] in (verbs.UNDERSTAND, verbs.FIND, verbs.HEAR)]
    return product(event, people(), with_objects(failures))


@cache
def activities_with_any() -> Space[Event]:
    """Activities with "any": not any bread, kein Brot."""
    return any_of(
        product(event, people(), with_objects(_any(EVERYDAY))), product(event, adults(), with_objects(_any(GROWN_UP)))
    )


@cache
def habits() -> Space[Event]:
    """What people do again and again."""
    visits = product(_predicate_of, one_of(SOCIAL_VERBS[:5]), own_relatives())
    walk_out = doing(verbs.GO, [going_to(place) for place in LEISURE_PLACES])
    return weighted(
        (4, product(event, people(), with_objects(HABITUAL))),
        (2, product(event, people(), pastimes())),
        (2, product(event, people(), walk_out)),
        (1, product(event, adults(), with_objects([(verbs.DRINK, nouns.COFFEES, (MASS,))]))),
        (1, product(event, minors(), games())),
        (1, product(event, individuals(), with_objects([(verbs.WEAR, nouns.CLOTHES, (A,))]))),
        (1, product(event, women(), with_objects([(verbs.WEAR, nouns.DRESSES, (A, BARE_PLURAL))]))),
        (2, product(event, descendants(), visits)),
    )


def clause_of(
    event_: Event,
    tense: Tense,
    *,
    modal: Modal = "",
    is_negated: bool = False,
    time: Adjunct | None = None,
    frequency: Adjunct | None = None,
    settled: Adjunct | None = None,
) -> Clause:
    """The event as a clause; the progressive brings its own gerade."""
    subject, predicate = event_
    return Clause(
        subject=subject,
        predicate=predicate,
        tense=tense,
        modal=modal,
        is_negated=is_negated,
        time=adverbs.RIGHT_NOW if tense == "progressive" and time is None else time,
        frequency=frequency,
        settled=settled,
    )
