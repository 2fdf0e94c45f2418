"""Statements with numbers, prices, clock times and dates, and about the weather."""

from functools import cache

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, english, german, nouns, verbs
from septuagint.data.demo.descriptions import being
from septuagint.data.demo.lexicon import Adjective, Adjunct, Noun, NounClass, Verb
from septuagint.data.demo.meaning import Clause, NounPhrase, Participant, Predicate, Pronoun, Tense
from septuagint.data.demo.participants import (
    POSSESSORS,
    THE,
    THIS,
    adults,
    counted,
    first_names,
    noun_phrases,
    people,
    possessed,
)
from septuagint.data.demo.predicates import HOME, TO_BED, TO_WORK
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted
from septuagint.data.demo.statements import Pair, pair, say, say_after

PRICED = (
    (nouns.CLOTHES, range(10, 100)),
    (nouns.DRESSES, range(20, 100)),
    (nouns.FURNITURE, range(30, 100)),
    (nouns.MACHINES, range(30, 100)),
    (nouns.PETS, range(15, 90)),
    (nouns.BOOKS_TO_BUY, range(2, 60)),
    (nouns.TOYS, range(2, 16)),
    (nouns.PURCHASES, range(5, 80)),
)


def euros(number: int) -> Adjunct:
    return Adjunct(f"{english.number_words(number)} euros", f"{german.number_words(number)} Euro")


def price() -> Space[Pair]:
    """The green lamp costs forty-five euros."""

    def build(thing: NounPhrase, number: int) -> Pair:
        return say(Clause(subject=thing, predicate=Predicate(verbs.COST, complements=(euros(number),))))

    return any_of(*(product(build, noun_phrases(things, THE, THIS), one_of(range_)) for things, range_ in PRICED))


# Hundreds and thousands in round steps: each German number is a word of its own, and should occur in training.
DEAR = (
    (nouns.OWN_VEHICLES, (*range(100, 1000, 100), *range(1000, 10_000, 1000))),
    (nouns.DEAR_MACHINES, range(200, 1000, 100)),
)


def high_price() -> Space[Pair]:
    """The red motorbike costs four thousand euros."""

    def build(thing: NounPhrase, number: int) -> Pair:
        return say(Clause(subject=thing, predicate=Predicate(verbs.COST, complements=(euros(number),))))

    return any_of(*(product(build, noun_phrases(things, THE, THIS), one_of(range_)) for things, range_ in DEAR))


def payment() -> Space[Pair]:
    """Anna paid twenty-three euros for the scarf. / Anna hat für den Schal dreiundzwanzig Euro bezahlt."""

    def build(subject: Participant, thing: NounPhrase, number: int) -> Pair:
        goods = Adjunct(f"for {english.phrase(thing)}", f"für {german.phrase(thing, 'accusative')}")
        return say(
            Clause(subject=subject, predicate=Predicate(verbs.PAY, complements=(goods, euros(number))), tense="past")
        )

    return any_of(
        *(product(build, adults(), noun_phrases(things, THE, THIS), one_of(range_)) for things, range_ in PRICED)
    )


def age() -> Space[Pair]:
    """My grandfather is eighty-three years old."""

    def build(subject: Participant, years: int) -> Pair:
        text = Adjunct(f"{english.number_words(years)} years old", f"{german.number_words(years)} Jahre alt")
        return say(Clause(subject=subject, predicate=Predicate(verbs.BE, complements=(text,))))

    grandparents = tuple(noun for noun in nouns.RELATIVES.nouns if noun.english.startswith("grand"))
    parents = (
        nouns.MOTHER,
        nouns.FATHER,
        *(noun for noun in nouns.RELATIVES.nouns if noun.english in ("aunt", "uncle")),
    )
    young = (nouns.SISTER, nouns.BROTHER, nouns.SON, nouns.DAUGHTER)
    pets = noun_phrases(NounClass(nouns.PETS.nouns, ()), ("my", False), ("our", False), ("your", False))
    houses = noun_phrases(NounClass((nouns.HOUSE, nouns.CHURCH, nouns.TREE, nouns.BRIDGE), ()), THE, THIS)
    return any_of(
        product(build, possessed(grandparents, POSSESSORS), one_of(range(60, 100))),
        product(build, possessed(parents, POSSESSORS), one_of(range(30, 70))),
        product(build, possessed(young, POSSESSORS), one_of(range(2, 30))),
        product(build, first_names(), one_of(range(2, 100))),
        product(build, pets, one_of(range(2, 16))),
        product(build, houses, one_of(range(20, 100))),
    )


@cache
def clock_times() -> Space[Adjunct]:
    """at half past seven / um halb acht"""
    return one_of(adverbs.AT_CLOCK)


VEHICLES = (nouns.TRAIN, nouns.BUS)


def timetable() -> Space[Pair]:
    """The train to Hamburg leaves at quarter past three. / Der Zug nach Hamburg fährt um Viertel nach drei ab."""

    def build(noun: Noun, city: Adjunct, verb: Verb, time: Adjunct, tense: Tense) -> Pair:
        direction = "from" if verb is verbs.ARRIVE else "to"
        vehicle = Clause(subject=NounPhrase(noun, "the"), predicate=Predicate(verb), tense=tense, time=time)
        origin = Adjunct(f"{direction} {city.english}", f"{'aus' if verb is verbs.ARRIVE else 'nach'} {city.german}")
        return pair(
            _after_noun(english.statement(vehicle), f"the {noun.english}", origin.english),
            _after_noun(german.main_clause(vehicle), german.phrase(vehicle.subject, "nominative"), origin.german),
        )

    tenses: Space[Tense] = one_of(["present", "past", "future"])
    cities = one_of(adverbs.CITIES)
    return weighted(
        (4, product(build, one_of(VEHICLES), cities, one_of([verbs.ARRIVE, verbs.DEPART]), clock_times(), tenses)),
        (1, product(build, one_of([nouns.PLANE]), cities, one_of([verbs.ARRIVE]), clock_times(), tenses)),
    )


def performance_times() -> Space[Pair]:
    """The film begins at eight o'clock. / Der Film fängt um acht Uhr an."""

    def build(noun: Noun, time: Adjunct, tense: Tense) -> Pair:
        return say(Clause(subject=NounPhrase(noun, "the"), predicate=Predicate(verbs.BEGIN), time=time, tense=tense))

    tenses: Space[Tense] = one_of(["present", "past", "future"])
    return product(build, one_of([*nouns.PERFORMANCES.nouns, nouns.CONCERT]), one_of(EVENING_TIMES), tenses)


def _after_noun(text: str, noun: str, addition: str) -> str:
    """The text, with the addition after the noun phrase that it begins with."""
    return f"{noun} {addition}{text.removeprefix(noun)}"


def time_of_day() -> Space[Pair]:
    """It is half past seven. / Es ist halb acht."""

    def build(hour: int, minute: int) -> Pair:
        return pair(f"it is {english.clock_time(hour, minute)}", f"es ist {german.clock_time(hour, minute)}")

    return product(build, one_of(range(1, 13)), one_of(range(0, 60, 5)))


def daily_routine() -> Space[Pair]:
    """My father gets up at six o'clock every day. / Mein Vater steht jeden Tag um sechs Uhr auf."""

    def build(subject: Participant, predicate: Predicate, day: Adjunct, time: Adjunct, tense: Tense) -> Pair:
        when = Adjunct(f"{time.english} {day.english}", f"{day.german} {time.german}")
        return say(Clause(subject=subject, predicate=predicate, time=when, tense=tense))

    every_day: tuple[Adjunct, ...] = (adverbs.HABIT_TIMES[0],)
    days: dict[Tense, tuple[Adjunct, ...]] = {
        "present": every_day,
        "past": (adverbs.YESTERDAY, *adverbs.ON_WEEKDAY),
        "future": (adverbs.TOMORROW, *adverbs.ON_WEEKDAY),
    }
    return any_of(
        *(
            product(build, subjects, one_of(predicates), one_of(days[tense]), one_of(times), one_of([tense]))
            for subjects, predicates, times in (
                (people(), MORNING, MORNING_TIMES),
                (adults(), WORKDAY, MORNING_TIMES),
                (people(), EVENING, EVENING_TIMES),
                (people(), NIGHT, NIGHT_TIMES),
            )
            for tense in days
        )
    )


MORNING = (
    Predicate(verbs.GET_UP),
    Predicate(verbs.WAKE_UP),
)
WORKDAY = (Predicate(verbs.GO, complements=(TO_WORK,)),)
EVENING = (
    Predicate(verbs.COME, complements=(HOME,)),
    Predicate(verbs.COME_BACK),
    Predicate(verbs.GO, complements=(HOME,)),
)
NIGHT = (Predicate(verbs.GO, complements=(TO_BED,)),)
MORNING_TIMES = tuple(adverbs.at_clock(hour, minute) for hour in (5, 6, 7, 8) for minute in (0, 15, 30, 45))
NIGHT_TIMES = tuple(adverbs.at_clock(hour, minute) for hour in (8, 9, 10, 11) for minute in (0, 15, 30, 45))
EVENING_TIMES = tuple(adverbs.at_clock(hour, minute) for hour in (6, 7, 8, 9) for minute in (0, 15, 30, 45))


DATES = tuple(
    (day, month)
    for month, last in zip(adverbs.MONTHS, (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True)
    for day in range(1, last + 1)
)


def on_date(date: tuple[int, tuple[str, str]]) -> Adjunct:
    day, (english_month, german_month) = date
    return Adjunct(
        f"on the {english.ordinal(day)} of {english_month}", f"am {german.ordinal(day, 'en')} {german_month}"
    )


def date_today() -> Space[Pair]:
    """Today is the third of May. / Heute ist der dritte Mai."""

    def build(day_word: tuple[Adjunct, Adjunct], date: tuple[int, tuple[str, str]]) -> Pair:
        word, be = day_word
        day, (english_month, german_month) = date
        return pair(
            f"{word.english} {be.english} the {english.ordinal(day)} of {english_month}",
            f"{word.german} {be.german} der {german.ordinal(day)} {german_month}",
        )

    now, then = Adjunct("is", "ist"), Adjunct("was", "war")
    return product(
        build, one_of([(adverbs.TODAY, now), (adverbs.TOMORROW, now), (adverbs.YESTERDAY, then)]), one_of(DATES)
    )


def appointment() -> Space[Pair]:
    """My birthday is on the ninth of June. We will fly to Rome on the ninth of June."""

    def build(owner: NounPhrase, date: Adjunct) -> Pair:
        return say(Clause(subject=owner, predicate=Predicate(verbs.BE, complements=(date,))))

    def build_visit(subject: Participant, city: Adjunct, date: Adjunct, tense: Tense) -> Pair:
        flight = Predicate(verbs.FLY, complements=(Adjunct(f"to {city.english}", f"nach {city.german}"),))
        return say(Clause(subject=subject, predicate=flight, tense=tense, time=date))

    def build_first(date: Adjunct, subject: Participant, city: Adjunct, tense: Tense) -> Pair:
        flight = Predicate(verbs.TRAVEL, complements=(Adjunct(f"to {city.english}", f"nach {city.german}"),))
        return say_after(date, Clause(subject=subject, predicate=flight, tense=tense))

    dates = one_of([on_date(date) for date in DATES])
    birthdays = any_of(
        possessed((nouns.BIRTHDAY,), POSSESSORS),
        product(lambda owner: NounPhrase(nouns.BIRTHDAY, "the", owner=owner), first_names()),
        product(
            lambda owner: NounPhrase(nouns.BIRTHDAY, "the", owner=owner), possessed(nouns.RELATIVES.nouns, POSSESSORS)
        ),
    )
    tenses: Space[Tense] = one_of(["past", "future"])
    return any_of(
        product(build, birthdays, dates),
        product(build_visit, people(), one_of(adverbs.CITIES), dates, tenses),
        product(build_first, dates, people(), one_of(adverbs.CITIES + adverbs.COUNTRIES), tenses),
    )


IT = Pronoun("it")
WEATHER_STATES = (
    of.COLD,
    of.WARM,
    of.HOT,
    Adjective("sunny", "sonnig", "sonnig", "", "", "", ""),
    Adjective("windy", "windig", "windig", "", "", "", ""),
    Adjective("foggy", "neblig", "neblig", "", "", "", ""),
)


def weather() -> Space[Pair]:
    """It rained in Hamburg yesterday. Tomorrow it will be very cold in Munich. The sun is shining today."""

    def build(what: Predicate, place: Adjunct | None, when: tuple[Adjunct, Tense], is_fronted: bool) -> Pair:
        time, tense = when
        predicate = Predicate(what.verb, complements=((place, *what.complements) if place else what.complements))
        if is_fronted:
            return say_after(time, Clause(subject=IT, predicate=predicate, tense=tense))
        return say(Clause(subject=IT, predicate=predicate, tense=tense, time=time))

    def build_sun(place: Adjunct | None, when: tuple[Adjunct, Tense]) -> Pair:
        time, tense = when
        predicate = Predicate(verbs.SHINE, complements=(place,) if place else ())
        return say_after(time, Clause(subject=NounPhrase(nouns.SUN, "the"), predicate=predicate, tense=tense))

    places = one_of(
        [None, *(Adjunct(f"in {place.english}", f"in {place.german}") for place in adverbs.CITIES + adverbs.COUNTRIES)]
    )
    past: list[tuple[Adjunct, Tense]] = [
        (time, "past") for time in (adverbs.YESTERDAY, *adverbs.ON_WEEKDAY, *adverbs.PAST_LONG_TIMES[:2])
    ]
    future: list[tuple[Adjunct, Tense]] = [
        (time, "future") for time in (*adverbs.FUTURE_TIMES[:5], *adverbs.ON_WEEKDAY)
    ]
    falling = [Predicate(verbs.RAIN), Predicate(verbs.SNOW)]
    states = [being(state, degree) for state in WEATHER_STATES for degree in (Adjunct("", ""), Adjunct("very", "sehr"))]
    now: list[tuple[Adjunct, Tense]] = [(adverbs.TODAY, "present")]
    return any_of(
        product(build, one_of(falling), places, one_of(past + future), one_of([False, True])),
        product(build, one_of(states), places, one_of(past + future + now), one_of([False, True])),
        product(build_sun, places, one_of(past + future)),
    )


def counting() -> Space[Pair]:
    """My uncle has twelve cows and three horses."""

    def build(subject: Participant, first: NounPhrase, second: NounPhrase) -> Pair:
        both = Adjunct(f"and {english.phrase(second)}", f"und {german.phrase(second, 'accusative')}")
        return say(Clause(subject=subject, predicate=Predicate(verbs.HAVE, first, complements=(both,))))

    animals = NounClass(nouns.FARM_ANIMALS.nouns[1:], ())
    herds = any_of(counted(animals, range(2, 21)), counted(animals, range(21, 100)))
    horses = NounClass((nouns.HORSE, nouns.DOG, nouns.CAT), ())
    farmers = any_of(
        possessed(nouns.RELATIVES.nouns[6:10], POSSESSORS),
        noun_phrases(NounClass((nouns.FARMER,), (of.OLD, of.YOUNG)), THE),
    )
    return product(build, farmers, herds, counted(horses))
