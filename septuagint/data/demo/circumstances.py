"""Sentences that say what is known, under which condition, and when: dass, ob, wenn, während, bevor and als."""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, english, german, nouns, verbs
from septuagint.data.demo.deeds import EVERYDAY, GROWN_UP
from septuagint.data.demo.descriptions import STATES, being
from septuagint.data.demo.lexicon import Adjective, Adjunct, NounClass, Verb
from septuagint.data.demo.meaning import (
    Clause,
    Modal,
    NounPhrase,
    Participant,
    Predicate,
    Pronoun,
    Tense,
    pronoun_for,
)
from septuagint.data.demo.participants import (
    BARE_PLURAL,
    MASS,
    POSSESSORS,
    SPEAKERS,
    THE_PLURAL,
    anyone,
    descendants,
    familiar_people,
    names,
    noun_phrases,
    own_relatives,
    people,
    possessed,
    pronouns,
    third_persons,
)
from septuagint.data.demo.places import person_spots
from septuagint.data.demo.predicates import (
    AT_HOME,
    HOME,
    TO_BED,
    TO_WORK,
    Event,
    activities,
    chores,
    clause_of,
    event,
    games,
    known_table,
    past_events,
    pastimes,
    with_objects,
)
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted
from septuagint.data.demo.statements import Pair, future_times, pair, past_times
from septuagint.data.demo.subordination import (
    AS_CHILD,
    BEFORE,
    DOCTORS,
    IF,
    IT,
    RAINY,
    THAT,
    WHILE,
    main_then_sub,
    past_clause,
    sub_then_main,
    walks_outside,
    with_complement,
)


def reported_fact() -> Space[Pair]:
    """I know that my uncle bought a new car. Anna hopes that the train will arrive soon."""

    def build(knower: Participant, verb: Verb, clause: Clause) -> Pair:
        return main_then_sub(Clause(subject=knower, predicate=Predicate(verb)), THAT, clause)

    def build_glad(knower: Participant, clause: Clause) -> Pair:
        return main_then_sub(Clause(subject=knower, predicate=Predicate(verbs.BE, complements=(GLAD,))), THAT, clause)

    knowers: Space[Participant] = anyone(pronouns("I", "you", "he", "she", "we", "they"))
    speakers: Space[Participant] = anyone(pronouns("he", "she", "they"))
    facts = any_of(
        product(lambda what, time: clause_of(what, "past", time=time), past_events(), past_times()),
        product(lambda what, time: clause_of(what, "future", time=time), activities(), future_times()),
        product(lambda who, state: Clause(subject=who, predicate=being(state)), familiar_people(), one_of(STATES)),
        product(
            lambda who, spot: Clause(subject=who, predicate=Predicate(verbs.BE, complements=(spot,))),
            familiar_people(),
            one_of(person_spots()),
        ),
    )
    hopes = any_of(
        product(lambda what, time: clause_of(what, "future", time=time), activities(), future_times()),
        product(lambda who: Clause(subject=who, predicate=being(of.HEALTHY)), familiar_people()),
    )
    visits = product(
        lambda who, what, time: clause_of(event(who, what), "future", time=time),
        third_persons(),
        VISITS_TO_US,
        future_times(),
    )
    return weighted(
        (3, product(build, knowers, one_of([verbs.KNOW_THAT, verbs.THINK]), facts)),
        (1, product(build, speakers, one_of([verbs.SAY]), facts)),
        (1, product(build, knowers, one_of([verbs.HOPE]), hopes)),
        (1, product(build_glad, knowers, visits)),
    )


GLAD = Adjunct("glad", "froh")
VISITS_TO_US = one_of([Predicate(verb, Pronoun("we")) for verb in (verbs.VISIT, verbs.HELP, verbs.CALL, verbs.PICK_UP)])


def whether_question() -> Space[Pair]:
    """Do you know whether Anna is at home? I do not know when the bus leaves."""

    def build(clause: Clause) -> Pair:
        return pair(
            english.join("do you know", "whether", english.statement(clause)),
            german.join("weißt du", ",", german.subordinate_clause(clause, first="ob")),
            "?",
        )

    def build_unknown(asking: Adjunct, clause: Clause, knower: Participant) -> Pair:
        main = Clause(subject=knower, predicate=Predicate(verbs.KNOW_THAT), is_negated=True)
        return main_then_sub(main, asking, clause)

    statements = any_of(
        product(lambda what: clause_of(what, "past"), past_events()),
        product(lambda what, time: clause_of(what, "future", time=time), activities(), future_times()),
        product(lambda who, state: Clause(subject=who, predicate=being(state)), third_persons(), one_of(STATES)),
        product(
            lambda who, spot: Clause(subject=who, predicate=Predicate(verbs.BE, complements=(spot,))),
            third_persons(),
            one_of(person_spots()),
        ),
    )
    knowers: Space[Participant] = anyone(pronouns("I", "we"))
    trains = product(
        lambda noun, verb: Clause(subject=NounPhrase(noun, "the"), predicate=Predicate(verb)),
        one_of([nouns.TRAIN, nouns.BUS]),
        one_of([verbs.ARRIVE, verbs.DEPART]),
    )
    comings = product(
        lambda who, verb, tense: Clause(subject=who, predicate=Predicate(verb), tense=tense),
        third_persons(),
        one_of([verbs.COME_BACK, verbs.GET_UP]),
        FUTURE_OR_PAST,
    )
    homes = product(
        lambda who, verb: Clause(subject=who, predicate=Predicate(verb)),
        third_persons(),
        one_of([verbs.LIVE, verbs.WORK]),
    )
    things = product(
        lambda thing: Clause(subject=thing, predicate=Predicate(verbs.BE)),
        any_of(
            *(
                noun_phrases(group, ("your", False), ("his", False), ("her", False))
                for group in (nouns.BELONGINGS, nouns.CLOTHES)
            )
        ),
    )
    return weighted(
        (2, product(build, statements)),
        (1, product(build_unknown, one_of([Adjunct("when", "wann")]), any_of(trains, comings), knowers)),
        (1, product(build_unknown, one_of([Adjunct("where", "wo")]), any_of(homes, things), knowers)),
    )


FUTURE_OR_PAST: Space[Tense] = one_of(["past", "future"])


def if_weather() -> Space[Pair]:
    """If it rains tomorrow, we will stay at home."""

    def build(sky: Clause, what: Event) -> Pair:
        return sub_then_main(IF, sky, clause_of(what, "future"))

    def bad(sky: Predicate, time: Adjunct) -> Clause:
        return Clause(subject=IT, predicate=sky, time=time)

    def good(state: Adjective, time: Adjunct) -> Clause:
        return Clause(subject=NounPhrase(nouns.WEATHER, "the"), predicate=being(state), time=time)

    times = one_of([adverbs.TOMORROW, adverbs.TODAY_EVENING, *adverbs.ON_WEEKDAY])
    indoors = any_of(
        product(event, people(), one_of([with_complement(verbs.STAY, AT_HOME), Predicate(verbs.WATCH_TV)])),
        product(
            event,
            people(),
            with_objects(
                [
                    line
                    for line in EVERYDAY
                    if line[0] in (verbs.READ, verbs.BAKE, verbs.COOK, verbs.TIDY_UP, verbs.CLEAN)
                ]
            ),
        ),
    )
    outdoors = any_of(
        product(event, people(), walks_outside()),
        product(
            event,
            people(),
            with_objects(
                [line for line in EVERYDAY + GROWN_UP if line[1] is nouns.WASHABLE_VEHICLES or line[0] is verbs.PLANT]
            ),
        ),
    )
    return any_of(
        product(build, product(bad, one_of(RAINY), times), indoors),
        product(build, product(good, one_of([of.GOOD]), times), outdoors),
        product(build, product(good, one_of([of.BAD]), times), indoors),
    )


def if_need() -> Space[Pair]:
    """If you are hungry, you can eat an apple. If you have time, you should visit your grandmother."""

    def build(condition: Predicate, consequence: tuple[Predicate, Modal]) -> Pair:
        predicate, modal = consequence
        you = Pronoun("you")
        return sub_then_main(
            IF,
            Clause(subject=you, predicate=condition),
            Clause(subject=you, predicate=predicate, modal=modal),
        )

    def with_modal(predicate: Predicate, modal: Modal) -> tuple[Predicate, Modal]:
        return predicate, modal

    can: Space[Modal] = one_of(["can", "should"])
    eating = with_objects([line for line in EVERYDAY if line[0] is verbs.EAT])
    drinking = with_objects([line for line in EVERYDAY if line[0] is verbs.DRINK])
    helping = any_of(
        with_objects(known_table(EVERYDAY)),
        product(lambda verb, one: Predicate(verb, one), one_of([verbs.VISIT, verbs.CALL, verbs.HELP]), own_relatives()),
    )
    resting = one_of(
        [
            with_complement(verbs.GO, TO_BED),
            with_complement(verbs.STAY, AT_HOME),
            Predicate(verbs.SLEEP),
            with_complement(verbs.GO, DOCTORS),
        ]
    )
    time = NounPhrase(nouns.TIME, "")
    return any_of(
        product(build, one_of([being(of.HUNGRY)]), product(with_modal, eating, can)),
        product(build, one_of([being(of.THIRSTY)]), product(with_modal, drinking, can)),
        product(build, one_of([Predicate(verbs.HAVE, time)]), product(with_modal, helping, can)),
        product(build, one_of([being(of.TIRED), being(of.ILL)]), product(with_modal, resting, can)),
    )


def simultaneous() -> Space[Pair]:
    """While my mother is cooking, my father is reading the newspaper."""

    def build(first: Participant, second: Participant, one: Predicate, other: Predicate) -> Pair:
        background = Clause(subject=first, predicate=one, tense="progressive")
        foreground = Clause(subject=second, predicate=other, tense="progressive")
        return sub_then_main(WHILE, background, foreground)

    mothers = possessed((nouns.MOTHER, nouns.SISTER, *nouns.RELATIVES.nouns[6:9:2]), SPEAKERS)
    fathers = possessed((nouns.FATHER, nouns.BROTHER, *nouns.RELATIVES.nouns[7:11:2]), SPEAKERS)
    return any_of(
        product(build, mothers, fathers, any_of(pastimes(), chores()), chores()),
        product(build, anyone(names()), fathers, any_of(pastimes(), chores()), chores()),
        product(build, anyone(minors_outside()), mothers, games(), chores()),
    )


def minors_outside() -> Space[NounPhrase]:
    return noun_phrases(nouns.CHILDREN, THE_PLURAL)


def before_something() -> Space[Pair]:
    """Before Paul went to bed, he read a short story."""

    def build(what: Event, next_step: Predicate) -> Pair:
        subject, predicate = what
        return sub_then_main(BEFORE, past_clause(next_step, subject), past_clause(predicate, pronoun_for(subject)))

    steps = one_of(
        [
            with_complement(verbs.GO, TO_BED),
            with_complement(verbs.GO, TO_WORK),
            with_complement(verbs.GO, HOME),
            with_complement(verbs.GO, Adjunct("to the station", "zum Bahnhof")),
            Predicate(verbs.GO_SHOPPING),
        ]
    )
    actions = any_of(
        product(event, people(), with_objects(EVERYDAY)),
        product(event, descendants(), product(lambda one: Predicate(verbs.CALL, one), own_relatives())),
    )
    return product(build, actions, steps)


def in_childhood() -> Space[Pair]:
    """When my uncle was a child, he often swam in the lake. / Als mein Onkel ein Kind war, ..."""

    def build(subject: Participant, predicate: Predicate, often: Adjunct) -> Pair:
        child = Predicate(verbs.BE, complements=(Adjunct("a child", "ein Kind"),))
        main = Clause(subject=pronoun_for(subject), predicate=predicate, tense="past", frequency=often)
        return sub_then_main(AS_CHILD, past_clause(child, subject), main)

    subjects: Space[Participant] = any_of(
        anyone(
            possessed(
                tuple(noun for noun in nouns.RELATIVES.nouns if noun not in (nouns.SON, nouns.DAUGHTER)), POSSESSORS
            ),
        ),
        anyone(pronouns("I", "he", "she")),
        anyone(names()),
    )
    sports = [Predicate(verbs.PLAY, complements=(thing,)) for thing in adverbs.SPORTS + adverbs.INSTRUMENTS]
    swimming = [
        with_complement(verbs.SWIM, Adjunct("in the lake", "im See")),
        with_complement(verbs.SWIM, Adjunct("in the river", "im Fluss")),
    ]
    elders = possessed(
        tuple(noun for noun in nouns.RELATIVES.nouns if noun not in (nouns.SON, nouns.DAUGHTER)), ("own",)
    )
    hobbies = any_of(
        one_of(sports + swimming),
        games(),
        with_objects(
            [
                (verbs.READ, nouns.HABITUAL_READING, (BARE_PLURAL,)),
                (verbs.EAT, nouns.FRUIT, (BARE_PLURAL,)),
                (verbs.EAT, NounClass(nouns.FOODSTUFFS.nouns, ()), (MASS,)),
                (verbs.DRINK, nouns.COLD_DRINKS, (MASS,)),
                (verbs.FEED, nouns.FARM_ANIMALS, (THE_PLURAL,)),
                (verbs.SING, nouns.SONGS, (BARE_PLURAL,)),
            ]
        ),
        product(lambda verb, one: Predicate(verb, one), one_of([verbs.VISIT, verbs.HELP]), elders),
    )
    return product(build, subjects, hobbies, one_of(adverbs.FREQUENCIES[:3]))
