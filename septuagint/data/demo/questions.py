"""Questions and commands."""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, english, german, nouns, verbs
from septuagint.data.demo.deeds import EVERYDAY, GROWN_UP, SUDDEN
from septuagint.data.demo.exchanges import handing
from septuagint.data.demo.lexicon import Adjunct, Noun, Verb
from septuagint.data.demo.meaning import (
    Asked,
    Clause,
    Modal,
    Name,
    NounPhrase,
    Participant,
    Predicate,
    Pronoun,
    Tense,
    pronoun_for,
)
from septuagint.data.demo.participants import (
    THE,
    THE_PLURAL,
    THIS,
    anyone,
    familiar_people,
    first_names,
    noun_phrases,
    others,
    pronouns,
)
from septuagint.data.demo.predicates import (
    Event,
    chores,
    clause_of,
    encounters,
    event,
    journeys,
    known_activities,
    known_table,
    ownerless,
    pastimes,
    steps,
    walks,
    with_objects,
)
from septuagint.data.demo.quantities import PRICED
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted
from septuagint.data.demo.statements import Pair, pair, past_times

NOTHING = Adjunct("", "")


def ask(clause: Clause, asking: Adjunct = NOTHING) -> Pair:
    return pair(
        english.question(clause, asking=asking.english), german.question(clause, asking=asking.german), mark="?"
    )


def whoever() -> Space[Participant]:
    """The listener as often as anyone else."""
    return weighted((3, anyone(pronouns("you"))), (3, familiar_people()), (1, anyone(pronouns("he", "she", "they"))))


def actions() -> Space[Predicate]:
    """What anyone may be asked or told to do."""
    return weighted(
        (3, with_objects(EVERYDAY)), (1, with_objects(GROWN_UP)), (1, pastimes()), (1, walks()), (1, encounters())
    )


def yes_no_question() -> Space[Pair]:
    """Did you buy a new coat yesterday? Will your mother bake a cake? Is Paul reading the newspaper?"""

    def build(subject: Participant, predicate: Predicate, when: tuple[Tense, Adjunct | None]) -> Pair:
        tense, time = when
        return ask(clause_of(event(subject, predicate), tense, time=time))

    times: list[tuple[Tense, Adjunct | None]] = [
        ("past", None),
        ("past", adverbs.YESTERDAY),
        ("past", adverbs.ON_WEEKDAY[0]),
        ("past", adverbs.ON_WEEKDAY[5]),
        ("future", None),
        ("future", adverbs.TOMORROW),
        ("future", adverbs.TODAY_EVENING),
        ("progressive", None),
    ]
    return product(build, whoever(), actions(), one_of(times))


def modal_question() -> Space[Pair]:
    """Can you close the window? Would you like to drink tea?"""

    def build(subject: Participant, predicate: Predicate, modal: Modal) -> Pair:
        return ask(clause_of(event(subject, predicate), "present", modal=modal))

    modals: Space[Modal] = one_of(["can", "have to", "want to", "would like to"])
    mine: Space[Modal] = one_of(["can", "may", "should"])
    return any_of(
        product(build, whoever(), actions(), modals),
        product(build, anyone(pronouns("I", "we")), actions(), mine),
    )


def polite_question() -> Space[Pair]:
    """Mrs. Weber, can you show me the way? / Frau Weber, können Sie ..."""

    def build(name: Name, predicate: Predicate, modal: Modal) -> Pair:
        clause = clause_of(event(Pronoun("You"), predicate), "present", modal=modal)
        return addressed(name, english.question(clause), german.question(clause), "?")

    def build_past(name: Name, predicate: Predicate, time: Adjunct) -> Pair:
        clause = clause_of(event(Pronoun("You"), predicate), "past", time=time)
        return addressed(name, english.question(clause), german.question(clause), "?")

    modals: Space[Modal] = one_of(["can", "have to", "want to", "would like to"])
    names = one_of(adverbs.TITLED_MEN + adverbs.TITLED_WOMEN)
    can: Space[Modal] = one_of(["can"])
    return any_of(
        product(build, names, actions(), modals),
        product(build, names, handing(anyone(pronouns("I", "we"))), can),
        product(build_past, names, actions(), past_times()),
    )


def addressed(name: Name, english_text: str, german_text: str, mark: str) -> Pair:
    return pair(
        english.join(english.phrase(name), ",", english_text),
        german.join(german.phrase(name, "nominative"), ",", german_text),
        mark,
    )


def where_question() -> Space[Pair]:
    """Where is my key? Where does your uncle live? Where are you going tomorrow?"""

    def build_thing(verb: Verb, thing: NounPhrase) -> Pair:
        return ask(Clause(subject=thing, predicate=Predicate(verb)), WHERE)

    def build_person(subject: Participant, verb: Verb) -> Pair:
        return ask(Clause(subject=subject, predicate=Predicate(verb)), WHERE)

    def build_event(subject: Participant, predicate: Predicate, when: tuple[Tense, Adjunct | None]) -> Pair:
        tense, time = when
        return ask(clause_of(event(subject, predicate), tense, time=time), WHERE)

    times: list[tuple[Tense, Adjunct | None]] = [
        ("past", None),
        ("past", adverbs.YESTERDAY),
        ("future", adverbs.TOMORROW),
    ]
    sites = noun_phrases(nouns.FACILITIES, THE)
    things = any_of(
        *(
            noun_phrases(group, THE, ("my", False), ("your", False), ("her", False), ("his", False))
            for group in (nouns.BELONGINGS, nouns.CLOTHES, nouns.PETS, nouns.OWN_VEHICLES, nouns.TOYS)
        )
    )
    buying = with_objects([line for line in GROWN_UP if line[0] in (verbs.BUY, verbs.REPAIR)])
    finding = with_objects([line for line in SUDDEN if line[0] in (verbs.FIND, verbs.SEE)])
    return any_of(
        product(build_thing, one_of([verbs.BE]), any_of(things, sites)),
        product(build_person, whoever(), one_of([verbs.LIVE, verbs.WORK, verbs.BE])),
        product(build_event, whoever(), buying, one_of(times)),
        product(build_event, whoever(), finding, one_of(times[:2])),
    )


WHERE = Adjunct("where", "wo")
WHEN = Adjunct("when", "wann")
WHY = Adjunct("why", "warum")
WHAT = Adjunct("what", "was")
WHOM = Adjunct("whom", "wen")
WHITHER = Adjunct("where", "wohin")


def whither_question() -> Space[Pair]:
    """Where did your parents go yesterday? / Wohin sind deine Eltern gestern gegangen?"""

    def build(subject: Participant, when: tuple[Tense, Adjunct | None], verb: Verb) -> Pair:
        tense, time = when
        return ask(clause_of(event(subject, Predicate(verb)), tense, time=time), WHITHER)

    times: list[tuple[Tense, Adjunct | None]] = [
        *(("past", time) for time in (*adverbs.PAST_TIMES[:5], *adverbs.ON_WEEKDAY)),
        *(("future", time) for time in adverbs.FUTURE_TIMES[:5]),
    ]
    return product(build, whoever(), one_of(times), one_of([verbs.GO, verbs.FLY]))


def when_question() -> Space[Pair]:
    """When does the train to Berlin leave? When will you visit your aunt?"""

    def build_train(noun: Noun, city: Adjunct) -> Pair:
        return pair(
            f"when does the {noun.english} to {city.english} leave",
            f"wann fährt {german.phrase(NounPhrase(noun, 'the'), 'nominative')} nach {city.german} ab",
            "?",
        )

    def build(subject: Participant, predicate: Predicate, tense: Tense) -> Pair:
        return ask(clause_of(event(subject, predicate), tense), WHEN)

    tenses: Space[Tense] = one_of(["past", "future"])
    return weighted(
        (1, product(build_train, one_of([nouns.TRAIN, nouns.BUS]), one_of(adverbs.CITIES))),
        (4, product(build, whoever(), actions(), tenses)),
        (1, product(build, whoever(), journeys(), tenses)),
    )


def who_question() -> Space[Pair]:
    """Who repaired the bicycle? / Wer hat das Fahrrad repariert?"""

    def build(predicate: Predicate, tense: Tense) -> Pair:
        clause = clause_of(event(Asked("who", "wer", "he"), predicate), tense)
        return pair(english.statement(clause), german.main_clause(clause), "?")

    tenses: Space[Tense] = one_of(["past", "future", "progressive"])
    return product(build, with_objects(ownerless(known_table(EVERYDAY) + known_table(GROWN_UP))), tenses)


def what_question() -> Space[Pair]:
    """What did your brother buy yesterday? Whom did you visit on Monday?"""

    def build(subject: Participant, verb: Verb, when: tuple[Tense, Adjunct], asking: Adjunct) -> Pair:
        tense, time = when
        return ask(clause_of(event(subject, Predicate(verb)), tense, time=time), asking)

    times: list[tuple[Tense, Adjunct]] = [
        *(("past", time) for time in (*adverbs.PAST_TIMES[:6], *adverbs.ON_WEEKDAY)),
        *(("future", time) for time in adverbs.FUTURE_TIMES[:5]),
    ]
    doing = one_of(
        [verbs.BUY, verbs.READ, verbs.EAT, verbs.DRINK, verbs.COOK, verbs.BAKE, verbs.WRITE, verbs.REPAIR, verbs.PAINT]
    )
    meeting = one_of([verbs.VISIT, verbs.MEET, verbs.CALL, verbs.INVITE, verbs.PICK_UP])
    return any_of(
        product(build, whoever(), doing, one_of(times), one_of([WHAT])),
        product(build, whoever(), meeting, one_of(times), one_of([WHOM])),
    )


def why_question() -> Space[Pair]:
    """Why did you not close the window? Why is Anna so sad?"""

    def build(what: Event, is_negated: bool) -> Pair:
        return ask(clause_of(what, "past", is_negated=is_negated), WHY)

    def build_state(subject: Participant, state: Adjunct, tense: Tense) -> Pair:
        predicate = Predicate(verbs.BE, complements=(state,))
        return ask(Clause(subject=subject, predicate=predicate, tense=tense), WHY)

    states = one_of(
        [
            Adjunct(f"so {adjective.english}", f"so {adjective.german}")
            for adjective in (of.SAD, of.TIRED, of.ANGRY, of.HAPPY, of.NERVOUS)
        ]
    )
    tenses: Space[Tense] = one_of(["present", "past"])
    return any_of(
        product(build, known_activities(), one_of([False, True])),
        product(build_state, whoever(), states, tenses),
    )


def how_much_question() -> Space[Pair]:
    """How much does the red lamp cost? How many books did you read?"""

    def build_price(thing: NounPhrase) -> Pair:
        asking = Adjunct("how much", "wie viel")
        return ask(Clause(subject=thing, predicate=Predicate(verbs.COST)), asking)

    def build_count(subject: Participant, verb: Verb, noun: Noun, tense: Tense) -> Pair:
        asking = Adjunct(f"how many {english.plural(noun)}", f"wie viele {noun.german_plural}")
        return ask(clause_of(event(subject, Predicate(verb)), tense), asking)

    past: Space[Tense] = one_of(["past"])
    present: Space[Tense] = one_of(["present"])
    counted = (
        (verbs.BUY, nouns.FRUIT.nouns + nouns.BAKING.nouns + nouns.VEGETABLES.nouns, past),
        (verbs.READ, nouns.HABITUAL_READING.nouns, past),
        (verbs.EAT, nouns.FRUIT.nouns + nouns.BAKING.nouns, past),
        (verbs.WRITE, nouns.MAIL.nouns, past),
        (verbs.HAVE, nouns.PETS.nouns + nouns.FARM_ANIMALS.nouns, present),
        (verbs.SEE, nouns.FARM_ANIMALS.nouns, past),
    )
    prices = any_of(*(noun_phrases(things, THE, THIS) for things, _ in PRICED))
    return weighted(
        (1, product(build_price, prices)),
        (
            2,
            any_of(
                *(
                    product(build_count, whoever(), one_of([verb]), one_of(things), tense)
                    for verb, things, tense in counted
                )
            ),
        ),
    )


def lost_and_found() -> Space[Pair]:
    """Where is my key? I cannot find it. / Wo ist mein Schlüssel? Ich kann ihn nicht finden."""

    def build(thing: NounPhrase, seeker: Participant, modal_and_verb: tuple[Modal, Verb, bool]) -> Pair:
        modal, verb, is_negated = modal_and_verb
        first = ask(Clause(subject=thing, predicate=Predicate(verbs.BE)), WHERE)
        search = clause_of(
            event(seeker, Predicate(verb, pronoun_for(thing))), "present", modal=modal, is_negated=is_negated
        )
        second = pair(english.statement(search), german.main_clause(search))
        return f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"

    single = any_of(
        *(noun_phrases(group, THE, ("my", False)) for group in (nouns.BELONGINGS, nouns.CLOTHES, nouns.TOYS))
    )
    several = any_of(*(noun_phrases(group, THE_PLURAL, ("my", True)) for group in (nouns.TOYS, nouns.SHOES_AS_PAIRS)))
    ours = any_of(
        *(noun_phrases(group, ("our", False)) for group in (nouns.BELONGINGS, nouns.PETS, nouns.OWN_VEHICLES))
    )
    ways: list[tuple[Modal, Verb, bool]] = [("can", verbs.FIND, True), ("have to", verbs.FIND, False)]
    return any_of(
        product(build, single, anyone(pronouns("I")), one_of(ways)),
        product(build, several, anyone(pronouns("I")), one_of(ways)),
        product(build, ours, anyone(pronouns("we")), one_of(ways)),
    )


COMMANDED = [line for line in known_table(EVERYDAY) if line[0] is not verbs.WATCH]


def command() -> Space[Pair]:
    """Close the window! Please switch off the light."""

    def build(predicate: Predicate, please: bool) -> Pair:
        text = english.infinitive(predicate, "you")
        return pair(
            english.join("please" if please else "", text),
            german.command(predicate, please=please),
            "." if please else "!",
        )

    return product(
        build, any_of(with_objects(COMMANDED), walks(), steps(), handing(_listeners())), one_of([True, False])
    )


def _listeners() -> Space[Participant]:
    return any_of(anyone(pronouns("I", "we")), others())


def command_to_someone() -> Space[Pair]:
    """Mr. Becker, please open the door. / Herr Becker, machen Sie bitte die Tür auf."""

    def build(name: Name, predicate: Predicate) -> Pair:
        is_polite = bool(name.german_title)
        text = english.join("please", english.infinitive(predicate, "you"))
        return addressed(name, text, german.command(predicate, is_polite=is_polite, please=True), ".")

    names = any_of(first_names(), one_of(adverbs.TITLED_MEN + adverbs.TITLED_WOMEN))
    return product(build, names, any_of(with_objects(COMMANDED), handing(_listeners())))


def prohibition() -> Space[Pair]:
    """Do not open the window! / Mach das Fenster nicht auf!"""

    def build(predicate: Predicate) -> Pair:
        return pair(
            english.join("do not", english.infinitive(predicate, "you")),
            german.command(predicate, is_negated=True),
            "!",
        )

    forgetting = [line for line in known_table(SUDDEN) if line[0] in (verbs.FORGET, verbs.LOSE, verbs.MISS)]
    return product(build, any_of(with_objects(COMMANDED), with_objects(forgetting), walks()))


def suggestion() -> Space[Pair]:
    """Let us go to the cinema this evening! / Lass uns heute Abend ins Kino gehen!"""

    def build(predicate: Predicate, time: Adjunct | None) -> Pair:
        return pair(
            english.join("let us", english.infinitive(predicate, "we"), time.english if time else ""),
            german.join("lass uns", time.german if time else "", german.infinitive_phrase(predicate, "we")),
            "!",
        )

    times = one_of([None, adverbs.TODAY, *adverbs.FUTURE_TIMES[:5], *adverbs.ON_WEEKDAY])
    return product(build, any_of(chores(), pastimes(), walks(), journeys()), times)
