"""Sentences that say why, or in spite of what: weil and obwohl."""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, english, german, nouns, verbs
from septuagint.data.demo.deeds import EVERYDAY, GROWN_UP, SUDDEN
from septuagint.data.demo.descriptions import being
from septuagint.data.demo.lexicon import Adjective, Adjunct, Noun, NounClass, Verb
from septuagint.data.demo.meaning import (
    Clause,
    Modal,
    NounPhrase,
    Participant,
    Predicate,
    pronoun_for,
)
from septuagint.data.demo.participants import (
    BARE_PLURAL,
    MASS,
    OWN,
    SPEAKERS,
    THE,
    THE_PLURAL,
    THIS,
    A,
    adults,
    anyone,
    descendants,
    first_names,
    individuals,
    noun_phrases,
    own_relatives,
    people,
    possessed,
    pronouns,
    third_persons,
)
from septuagint.data.demo.predicates import (
    ALL_PLACES,
    AT_HOME,
    HOME,
    TO_BED,
    Event,
    clause_of,
    doing,
    encounters,
    event,
    going_to,
    known_table,
    with_objects,
)
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted
from septuagint.data.demo.statements import Pair, pair, past_times
from septuagint.data.demo.subordination import (
    ALTHOUGH,
    BECAUSE,
    DOCTORS,
    IT,
    RAINY,
    either_order,
    main_then_sub,
    past_clause,
    walks_outside,
    with_complement,
)


def having(english_text: str, german_text: str) -> Predicate:
    return Predicate(verbs.HAVE, complements=(Adjunct(english_text, german_text),))


Outcome = tuple[Predicate, Modal, bool]
"""A predicate with its modal verb, and whether it is negated."""


def outcome(predicate: Predicate, modal: Modal = "", *, is_negated: bool = False) -> Outcome:
    return predicate, modal, is_negated


EARLY = Adjunct("early", "früh")
BADLY = Adjunct("badly", "schlecht")
A_LOT = Adjunct("a lot", "viel")
SICK = (
    outcome(being(of.ILL)),
    outcome(having("a headache", "Kopfschmerzen")),
    outcome(having("a fever", "Fieber")),
    outcome(having("a toothache", "Zahnschmerzen")),
)
AFTER_SICKNESS = (
    outcome(with_complement(verbs.STAY, AT_HOME)),
    outcome(with_complement(verbs.GO, HOME)),
    outcome(with_complement(verbs.GO, DOCTORS)),
    outcome(with_complement(verbs.GO, TO_BED)),
    outcome(Predicate(verbs.COME), is_negated=True),
    outcome(Predicate(verbs.SLEEP), "can", is_negated=True),
)
EXHAUSTION = (
    outcome(with_complement(verbs.SLEEP, BADLY)),
    outcome(with_complement(verbs.WORK, A_LOT)),
    outcome(with_complement(verbs.GET_UP, EARLY)),
)
AFTER_EXHAUSTION = (
    outcome(being(of.TIRED)),
    outcome(being(of.TIRED, Adjunct("very", "sehr"))),
    outcome(with_complement(verbs.GO, Adjunct("to bed early", "früh ins Bett"))),
    outcome(being(of.NERVOUS)),
)
MISFORTUNE_FEELINGS = (
    outcome(being(of.SAD)),
    outcome(being(of.ANGRY)),
    outcome(being(of.NERVOUS)),
    outcome(Predicate(verbs.CRY)),
)
JOY = (
    outcome(being(of.HAPPY)),
    outcome(being(of.HAPPY, Adjunct("very", "sehr"))),
    outcome(Predicate(verbs.LAUGH)),
)


def _plain(predicates: Space[Predicate]) -> Space[Outcome]:
    return product(outcome, predicates)


def same_person_reasons() -> Space[tuple[Outcome, Outcome]]:
    """What somebody did or felt, and why: pairs in which the one explains the other."""
    losses = with_objects(
        [line for line in SUDDEN if line[0] in (verbs.LOSE, verbs.FORGET, verbs.MISS) and line[1] is not nouns.TASKS]
    )
    finds = any_of(
        with_objects([(verbs.GET, nouns.MAIL, (A,)), (verbs.FIND, nouns.BELONGINGS, (OWN,))]),
        product(lambda relative: Predicate(verbs.MEET, relative), own_relatives()),
    )
    meals = with_objects(
        [
            (verbs.EAT, nouns.FRUIT, (BARE_PLURAL,)),
            (verbs.EAT, nouns.PIECES, (A,)),
            (verbs.EAT, nouns.BAKING, (A,)),
            (verbs.EAT, nouns.FOODSTUFFS, (MASS,)),
            (verbs.EAT, nouns.STAPLES, (MASS,)),
            (verbs.COOK, NounClass((nouns.SOUP,), (of.HOT, of.DELICIOUS)), (A,)),
        ]
    )
    drinks = with_objects([(verbs.DRINK, nouns.COLD_DRINKS, (MASS,)), (verbs.DRINK, nouns.TEAS, (MASS,))])

    def both(result: Outcome, reason: Outcome) -> tuple[Outcome, Outcome]:
        return result, reason

    return any_of(
        product(both, one_of(AFTER_SICKNESS), one_of(SICK)),
        product(both, one_of(AFTER_EXHAUSTION), one_of(EXHAUSTION)),
        product(both, one_of(MISFORTUNE_FEELINGS), _plain(losses)),
        product(both, one_of(JOY), _plain(finds)),
        product(
            both, _plain(meals), one_of([outcome(being(of.HUNGRY)), outcome(being(of.HUNGRY, Adjunct("very", "sehr")))])
        ),
        product(
            both,
            _plain(drinks),
            one_of([outcome(being(of.THIRSTY)), outcome(being(of.THIRSTY, Adjunct("very", "sehr")))]),
        ),
    )


def because_of_oneself() -> Space[Pair]:
    """Anna stayed at home because she was ill. Because Anna was ill, she stayed at home."""

    def build(subject: Participant, causes: tuple[Outcome, Outcome], is_sub_first: bool) -> Pair:
        result, reason = causes
        later = pronoun_for(subject)
        first, second = (later, subject) if is_sub_first else (subject, later)
        return either_order(
            past_clause(result[0], first, modal=result[1], is_negated=result[2]),
            BECAUSE,
            past_clause(reason[0], second, modal=reason[1], is_negated=reason[2]),
            is_sub_first,
        )

    def build_then(time: Adjunct, subject: Participant, causes: tuple[Outcome, Outcome]) -> Pair:
        result, reason = causes
        main = past_clause(result[0], subject, modal=result[1], is_negated=result[2])
        sub = past_clause(reason[0], pronoun_for(subject), modal=reason[1], is_negated=reason[2])
        return pair(
            english.join(english.statement(main, first=time.english), "because", english.statement(sub)),
            german.join(german.main_clause(main, first=time.german), ",", german.subordinate_clause(sub, first="weil")),
        )

    return any_of(
        product(build, descendants(), same_person_reasons(), one_of([False, True])),
        product(build_then, past_times(), descendants(), same_person_reasons()),
    )


def thwarted_plan() -> Space[Pair]:
    """On Sunday Emma wanted to visit her aunt, but she stayed at home because she was ill."""

    def build(what: Event, time: Adjunct, result: Outcome, reason: Outcome) -> Pair:
        later = pronoun_for(what[0])
        wish = clause_of(what, "past", modal="want to")
        setback = past_clause(result[0], later, modal=result[1], is_negated=result[2])
        cause = past_clause(reason[0], later, modal=reason[1], is_negated=reason[2])
        return pair(
            english.join(
                english.statement(wish, first=time.english),
                ", but",
                english.statement(setback),
                "because",
                english.statement(cause),
            ),
            german.join(
                german.main_clause(wish, first=time.german),
                ", aber",
                german.main_clause(setback),
                ",",
                german.subordinate_clause(cause, first="weil"),
            ),
        )

    setbacks = (AFTER_SICKNESS[0], AFTER_SICKNESS[2], AFTER_SICKNESS[3])
    return product(build, outdoor_activities(), past_times(), one_of(setbacks), one_of(SICK))


def outdoor_activities() -> Space[Event]:
    """What one cannot do in bed."""
    return any_of(
        product(event, descendants(), encounters()),
        product(event, people(), doing(verbs.GO, [going_to(place) for place in ALL_PLACES])),
        product(event, people(), walks_outside()),
        product(
            event,
            adults(),
            with_objects([line for line in GROWN_UP if line[0] in (verbs.BUY, verbs.WASH, verbs.REPAIR)]),
        ),
    )


def because_of_money() -> Space[Pair]:
    """Anna could not buy the new car because she had no money."""

    def build(subject: Participant, thing: NounPhrase, is_sub_first: bool) -> Pair:
        later = pronoun_for(subject)
        first, second = (later, subject) if is_sub_first else (subject, later)
        return either_order(
            past_clause(Predicate(verbs.BUY, thing), first, modal="can", is_negated=True),
            BECAUSE,
            past_clause(Predicate(verbs.HAVE, NounPhrase(nouns.MONEY, "no")), second),
            is_sub_first,
        )

    goods = (nouns.OWN_VEHICLES, nouns.FURNITURE, nouns.MACHINES, nouns.CLOTHES, nouns.DRESSES)
    things = any_of(*(noun_phrases(group, THE, THIS) for group in goods))
    return product(build, adults(), things, one_of([False, True]))


def reported_reason() -> Space[Pair]:
    """I know that Anna stayed at home because she was ill."""

    def build(knower: Participant, verb: Verb, subject: Participant, causes: tuple[Outcome, Outcome]) -> Pair:
        result, reason = causes
        main = Clause(subject=knower, predicate=Predicate(verb))
        fact = past_clause(result[0], subject, modal=result[1], is_negated=result[2])
        cause = past_clause(reason[0], pronoun_for(subject), modal=reason[1], is_negated=reason[2])
        return pair(
            english.join(english.statement(main), "that", english.statement(fact), "because", english.statement(cause)),
            german.join(
                german.main_clause(main),
                ",",
                german.subordinate_clause(fact, first="dass"),
                ",",
                german.subordinate_clause(cause, first="weil"),
            ),
        )

    return any_of(
        product(
            build,
            anyone(pronouns("I", "we")),
            one_of([verbs.KNOW_THAT, verbs.THINK]),
            third_persons(),
            same_person_reasons(),
        ),
        product(
            build,
            anyone(possessed(nouns.RELATIVES.nouns, SPEAKERS)),
            one_of([verbs.KNOW_THAT, verbs.THINK, verbs.SAY]),
            anyone(first_names()),
            same_person_reasons(),
        ),
    )


def because_of_duty() -> Space[Pair]:
    """Paul cannot come today because he has to repair his bicycle."""

    def build(what: Event, plan: Predicate, time: Adjunct) -> Pair:
        subject, duty = what
        main = Clause(subject=subject, predicate=plan, modal="can", is_negated=True, time=time)
        return main_then_sub(main, BECAUSE, clause_of(event(pronoun_for(subject), duty), "present", modal="have to"))

    tasks = [line for line in known_table(EVERYDAY) + known_table(GROWN_UP) if line[0] in DUTIES]
    duties = any_of(
        product(event, adults(), with_objects(tasks)),
        product(event, descendants(), product(lambda one: Predicate(verbs.HELP, one), own_relatives())),
        product(event, adults(), one_of([Predicate(verbs.WORK)])),
    )
    plans = one_of(
        [
            Predicate(verbs.COME),
            with_complement(verbs.GO, Adjunct("to the cinema", "ins Kino")),
            with_complement(verbs.PLAY, adverbs.SPORTS[0]),
        ]
    )
    return product(
        build, duties, plans, one_of([adverbs.TODAY, adverbs.TODAY_EVENING, adverbs.TOMORROW, *adverbs.ON_WEEKDAY])
    )


DUTIES = (verbs.REPAIR, verbs.CLEAN, verbs.TIDY_UP, verbs.WASH, verbs.FEED, verbs.PAY, verbs.WATER)


def because_it_was_broken() -> Space[Pair]:
    """Anna bought a new lamp because the old lamp was broken."""

    def build(subject: Participant, noun: Noun, state: Predicate, is_sub_first: bool) -> Pair:
        new = NounPhrase(noun, "a", adjectives=(of.NEW,))
        old = NounPhrase(noun, "the", adjectives=(of.OLD,))
        return either_order(
            past_clause(Predicate(verbs.BUY, new), subject), BECAUSE, past_clause(state, old), is_sub_first
        )

    things = nouns.MACHINES.nouns + nouns.FURNITURE.nouns + (nouns.CAR, nouns.BICYCLE)
    clothes = nouns.CLOTHES.nouns
    return any_of(
        product(build, adults(), one_of(things), one_of([being(of.BROKEN)]), one_of([False, True])),
        product(
            build, adults(), one_of(clothes), one_of([being(of.SMALL, Adjunct("too", "zu"))]), one_of([False, True])
        ),
    )


def because_of_weather() -> Space[Pair]:
    """We stayed at home because it rained. Although it was cold, the children played in the garden."""

    def build(
        subject: Participant, predicate: Predicate, sky: Predicate, conjunction: Adjunct, is_sub_first: bool
    ) -> Pair:
        return either_order(past_clause(predicate, subject), conjunction, past_clause(sky, IT), is_sub_first)

    cosy = any_of(
        one_of([with_complement(verbs.STAY, AT_HOME), with_complement(verbs.GO, HOME), Predicate(verbs.WATCH_TV)]),
        with_objects([(verbs.DRINK, nouns.TEAS, (MASS,))]),
    )
    dressing = with_objects(
        [(verbs.PUT_ON, nouns.WARM_CLOTHES, (OWN, A)), (verbs.PUT_ON_HEAD, nouns.WARM_HEADGEAR, (OWN, A))]
    )
    bold = any_of(
        one_of(
            [
                with_complement(verbs.SWIM, Adjunct("in the lake", "im See")),
                with_complement(verbs.SWIM, Adjunct("in the river", "im Fluss")),
                with_complement(verbs.HIKE, Adjunct("in the mountains", "in den Bergen")),
                with_complement(verbs.PLAY, Adjunct("in the garden", "im Garten")),
                with_complement(verbs.PLAY, Adjunct("in the park", "im Park"), adverbs.SPORTS[0]),
                with_complement(verbs.GO, Adjunct("to the beach", "an den Strand")),
                with_complement(verbs.GO, Adjunct("into the forest", "in den Wald")),
                Predicate(verbs.GO_SHOPPING),
            ]
        ),
        with_objects(
            [
                (verbs.WASH, nouns.WASHABLE_VEHICLES, (OWN, THE)),
            ]
        ),
    )
    return any_of(
        product(build, people(), cosy, one_of(RAINY), one_of([BECAUSE]), one_of([False, True])),
        product(build, individuals(), dressing, one_of(RAINY), one_of([BECAUSE]), one_of([False, True])),
        product(build, people(), bold, one_of(RAINY), one_of([ALTHOUGH]), one_of([False, True])),
    )


def although_tired() -> Space[Pair]:
    """Although my father was tired, he repaired the car."""

    def build(what: Event, state: Adjective, is_sub_first: bool) -> Pair:
        subject, predicate = what
        later = pronoun_for(subject)
        first, second = (later, subject) if is_sub_first else (subject, later)
        return either_order(past_clause(predicate, first), ALTHOUGH, past_clause(being(state), second), is_sub_first)

    work = weighted(
        (3, product(event, people(), with_objects([line for line in EVERYDAY if line[0] in EFFORTS]))),
        (2, product(event, adults(), with_objects([line for line in GROWN_UP if line[0] in EFFORTS]))),
        (1, product(event, descendants(), encounters())),
    )
    return product(build, work, one_of([of.TIRED, of.ILL]), one_of([False, True]))


EFFORTS = (
    verbs.READ,
    verbs.WRITE,
    verbs.COOK,
    verbs.BAKE,
    verbs.WASH,
    verbs.CLEAN,
    verbs.TIDY_UP,
    verbs.PLANT,
    verbs.WATER,
    verbs.FEED,
    verbs.REPAIR,
    verbs.CARRY,
    verbs.PAINT,
    verbs.BUILD,
)


def although_expensive() -> Space[Pair]:
    """Anna bought the coat although it was very expensive. / ... obwohl er sehr teuer war."""

    def build(subject: Participant, thing: NounPhrase, degree: Adjunct, quality: Adjective) -> Pair:
        buying = past_clause(Predicate(verbs.BUY, thing), subject)
        return main_then_sub(buying, ALTHOUGH, past_clause(being(quality, degree), pronoun_for(thing)))

    degrees = one_of([Adjunct("", ""), Adjunct("very", "sehr"), Adjunct("too", "zu")])
    goods = any_of(
        *(
            noun_phrases(NounClass(things.nouns, (of.NEW, of.BEAUTIFUL), things.colours), THE, THE_PLURAL, A)
            for things in (nouns.CLOTHES, nouns.DRESSES, nouns.FURNITURE, nouns.OWN_VEHICLES)
        )
    )
    return product(build, adults(), goods, degrees, one_of([of.EXPENSIVE, of.BIG, of.SMALL]))
