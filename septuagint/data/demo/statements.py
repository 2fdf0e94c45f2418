"""Statements of what someone did, does, will do, can or must do."""

from functools import cache

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, english, german, nouns, verbs
from septuagint.data.demo.deeds import GROWN_UP, SEARCHING
from septuagint.data.demo.lexicon import Adjunct, NounClass
from septuagint.data.demo.meaning import Clause, Modal, NounPhrase, Participant, Predicate, Prepositional, Tense
from septuagint.data.demo.participants import (
    A,
    adults,
    descendants,
    individuals,
    own_relatives,
    people,
)
from septuagint.data.demo.predicates import (
    LEISURE_PLACES,
    Event,
    activities,
    activities_with_any,
    clause_of,
    doing,
    event,
    going_to,
    habits,
    journeys,
    known_activities,
    misunderstandings,
    past_events,
    sitting,
    steps,
    to_city,
    with_objects,
)
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted

Pair = tuple[str, str]


def pair(english_text: str, german_text: str, mark: str = ".") -> Pair:
    return english.finish(english_text, mark), german.finish(german_text, mark)


def say(clause: Clause) -> Pair:
    return pair(english.statement(clause), german.main_clause(clause))


def say_after(first: Adjunct, clause: Clause) -> Pair:
    """With a fronted adverbial, which takes the place before the German verb."""
    return pair(english.statement(clause, first=first.english), german.main_clause(clause, first=first.german))


def joined(first: Clause, conjunction: Adjunct, second: Clause) -> Pair:
    """Two main clauses with a comma and a conjunction, which leaves the German order alone."""
    return pair(
        english.join(english.statement(first), ",", conjunction.english, english.statement(second)),
        german.join(german.main_clause(first), ",", conjunction.german, german.main_clause(second)),
    )


@cache
def past_times() -> Space[Adjunct]:
    return weighted(
        (4, one_of(adverbs.PAST_TIMES)), (2, one_of(adverbs.ON_WEEKDAY)), (1, one_of(adverbs.PAST_WEEKDAYS))
    )


@cache
def future_times() -> Space[Adjunct]:
    return weighted(
        (4, one_of(adverbs.FUTURE_TIMES)), (2, one_of(adverbs.ON_WEEKDAY)), (1, one_of(adverbs.FUTURE_WEEKDAYS))
    )


@cache
def plans() -> Space[Event]:
    """What takes weeks rather than minutes."""
    moves = [Predicate(verbs.MOVE, complements=(to_city(place),)) for place in adverbs.CITIES + adverbs.COUNTRIES]
    return any_of(
        product(event, adults(), journeys()),
        product(event, adults(), with_objects(BIG_PLANS)),
        product(event, adults(), one_of(moves)),
    )


LASTING_GOODS = (nouns.OWN_VEHICLES, nouns.HOMES, nouns.FURNITURE, nouns.MACHINES)
BIG_PLANS = (
    *(line for line in GROWN_UP if line[0] in (verbs.BUY, verbs.SELL) and line[1] in LASTING_GOODS),
    (verbs.BUILD, NounClass((nouns.HOUSE,), (of.BIG, of.SMALL, of.NEW, of.BEAUTIFUL)), (A,)),
)


@cache
def long_past_times() -> Space[Adjunct]:
    return any_of(one_of(adverbs.PAST_LONG_TIMES), one_of(adverbs.IN_MONTH))


@cache
def long_future_times() -> Space[Adjunct]:
    return any_of(one_of(adverbs.FUTURE_LONG_TIMES), one_of(adverbs.IN_MONTH))


def past_statement() -> Space[Pair]:
    """Anna bought a red dress yesterday."""
    return weighted(
        (2, product(lambda what: say(clause_of(what, "past")), past_events())),
        (2, product(lambda what, time: say(clause_of(what, "past", time=time)), past_events(), past_times())),
        (3, product(lambda what, time: say(clause_of(what, "past", time=time)), plans(), long_past_times())),
    )


def past_statement_with_fronted_time() -> Space[Pair]:
    """Yesterday Anna bought a red dress."""
    return weighted(
        (1, product(lambda what, time: say_after(time, clause_of(what, "past")), past_events(), past_times())),
        (1, product(lambda what, time: say_after(time, clause_of(what, "past")), plans(), long_past_times())),
    )


def future_statement() -> Space[Pair]:
    """My uncle will repair the car tomorrow."""
    return weighted(
        (1, product(lambda what, time: say(clause_of(what, "future", time=time)), activities(), future_times())),
        (1, product(lambda what, time: say(clause_of(what, "future", time=time)), plans(), long_future_times())),
    )


def future_statement_with_fronted_time() -> Space[Pair]:
    """Tomorrow my uncle will repair the car."""
    return weighted(
        (1, product(lambda what, time: say_after(time, clause_of(what, "future")), activities(), future_times())),
        (1, product(lambda what, time: say_after(time, clause_of(what, "future")), plans(), long_future_times())),
    )


def progressive_statement() -> Space[Pair]:
    """The children are feeding the rabbit. / Die Kinder füttern gerade das Kaninchen."""
    searches = any_of(
        product(event, people(), with_objects(SEARCHING)),
        product(event, people(), steps()),
        product(event, individuals(), sitting()),
    )
    return weighted(
        (6, product(lambda what: say(clause_of(what, "progressive")), activities())),
        (1, product(lambda what: say(clause_of(what, "progressive")), searches)),
    )


def habit_statement() -> Space[Pair]:
    """My grandmother often drinks tea. She reads the newspaper every day."""
    return any_of(
        product(
            lambda what, often: say(clause_of(what, "present", frequency=often)), habits(), one_of(adverbs.FREQUENCIES)
        ),
        product(lambda what, time: say(clause_of(what, "present", time=time)), habits(), one_of(adverbs.HABIT_TIMES)),
    )


def perfect_statement() -> Space[Pair]:
    """Paul has already washed the car. Paul has not washed the car yet."""

    def build(what: Event, is_negated: bool) -> Pair:
        settled = adverbs.NOT_YET if is_negated else adverbs.ALREADY
        return say(clause_of(what, "perfect", settled=settled, is_negated=is_negated))

    return product(build, known_activities(), one_of([False, True]))


def negated_statement() -> Space[Pair]:
    """We did not clean the kitchen yesterday. We did not buy any bread."""

    def build(what: Event, tense: Tense, time: Adjunct | None) -> Pair:
        return say(clause_of(what, tense, is_negated=True, time=time))

    past: Space[Tense] = one_of(["past"])
    future: Space[Tense] = one_of(["future"])
    some_time = one_of((None, adverbs.YESTERDAY, *adverbs.PAST_TIMES[1:4], *adverbs.ON_WEEKDAY))
    later = one_of((None, *adverbs.FUTURE_TIMES[:5], *adverbs.ON_WEEKDAY))
    return any_of(
        product(build, any_of(known_activities(), misunderstandings()), past, some_time),
        product(build, known_activities(), future, later),
        product(build, activities_with_any(), past, some_time),
    )


MODALS_NOW: tuple[Modal, ...] = ("can", "have to", "want to", "should", "may", "would like to")
MODALS_BEFORE: tuple[Modal, ...] = ("have to", "want to")


def modal_statement() -> Space[Pair]:
    """My sister has to tidy up her room today."""

    def build(what: Event, modal: Modal, time: Adjunct | None) -> Pair:
        return say(clause_of(what, "present", modal=modal, time=time))

    when = one_of((None, adverbs.TODAY, adverbs.TODAY_EVENING, adverbs.TOMORROW))
    return product(build, activities(), one_of(MODALS_NOW), when)


def past_modal_statement() -> Space[Pair]:
    """Yesterday Paul wanted to go to the cinema."""

    def build(what: Event, modal: Modal, time: Adjunct) -> Pair:
        return say_after(time, clause_of(what, "past", modal=modal))

    return product(build, activities(), one_of(MODALS_BEFORE), past_times())


def negated_modal_statement() -> Space[Pair]:
    """The boy must not open the window. Anna could not find her key."""

    def build(what: Event, modal_and_tense: tuple[Modal, Tense]) -> Pair:
        modal, tense = modal_and_tense
        return say(clause_of(what, tense, modal=modal, is_negated=True))

    now: list[tuple[Modal, Tense]] = [(modal, "present") for modal in MODALS_NOW[:-1]]
    before: list[tuple[Modal, Tense]] = [(modal, "past") for modal in ("can", *MODALS_BEFORE)]
    cannot: list[tuple[Modal, Tense]] = [("can", "present"), ("can", "past")]
    return weighted(
        (3, product(build, known_activities(), one_of(now + before))),
        (1, product(build, misunderstandings(), one_of(cannot))),
    )


def outing() -> Space[Pair]:
    """On Sunday Anna went to the zoo with her aunt. / Am Sonntag ist Anna mit ihrer Tante in den Zoo gegangen."""

    def build(subject: Participant, where: Predicate, company: Prepositional, tense: Tense, time: Adjunct) -> Pair:
        together = Predicate(where.verb, complements=(company, *where.complements))
        return say_after(time, clause_of(event(subject, together), tense))

    def build_plain(
        subject: Participant, where: Predicate, company: Prepositional, tense: Tense, time: Adjunct
    ) -> Pair:
        together = Predicate(where.verb, complements=(company, *where.complements))
        return say(clause_of(event(subject, together), tense, time=time))

    past: Space[Tense] = one_of(["past"])
    future: Space[Tense] = one_of(["future"])
    company = product(_with, own_relatives())
    places = any_of(
        doing(verbs.GO, [going_to(place) for place in LEISURE_PLACES]),
        doing(verbs.PLAY, adverbs.SPORTS),
        one_of([Predicate(verbs.GO_SHOPPING), Predicate(verbs.DANCE), Predicate(verbs.COOK)]),
        journeys(),
    )
    return any_of(
        product(build, descendants(), places, company, past, past_times()),
        product(build_plain, descendants(), places, company, past, past_times()),
        product(build, descendants(), places, company, future, future_times()),
        product(build_plain, descendants(), places, company, future, future_times()),
    )


def _with(companion: NounPhrase) -> Prepositional:
    return Prepositional(adverbs.WITH, companion)
