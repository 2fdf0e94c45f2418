"""Sentences with relative clauses, whose pronoun has the gender of its noun and the case of its own clause."""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, english, german, nouns, verbs
from septuagint.data.demo.deeds import EVERYDAY
from septuagint.data.demo.descriptions import DEGREES, being
from septuagint.data.demo.lexicon import Adjective, Adjunct, Case, NounClass, Verb
from septuagint.data.demo.meaning import Asked, Clause, NounPhrase, Participant, Predicate, Tense
from septuagint.data.demo.participants import (
    POSSESSORS,
    SPEAKERS,
    THE,
    THE_PLURAL,
    A,
    Form,
    anyone,
    first_names,
    names,
    noun_phrases,
    possessed,
    pronouns,
    third_persons,
)
from septuagint.data.demo.predicates import clause_of, event, journeys, ownerless, pastimes, with_objects
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted
from septuagint.data.demo.statements import Pair, pair


def as_relative_subject(head: NounPhrase) -> Asked:
    """who / der, die, das: the head again, as the subject of its relative clause."""
    is_thing = head.noun.person == "it" and head.noun not in nouns.CHILDREN.nouns
    return Asked("that" if is_thing else "who", german.relative_pronoun(head, "nominative"), head.person)


def with_relative(head: NounPhrase, english_clause: str, german_clause: str) -> Asked:
    """The head and its relative clause as one subject; German closes the clause with a comma."""
    return Asked(
        english.join(english.phrase(head), english_clause),
        german.join(german.phrase(head, "nominative"), ",", german_clause) + ",",
        head.person,
    )


def subject_relative(head: NounPhrase, clause: Clause) -> Asked:
    return with_relative(head, english.statement(clause), german.subordinate_clause(clause))


def object_relative(head: NounPhrase, clause: Clause, case: Case) -> Asked:
    """The clause lacks its object, which the relative pronoun stands for."""
    word = "whom" if head.noun.person in ("he", "she") or head.noun in nouns.CHILDREN.nouns else "that"
    return with_relative(
        head,
        english.join(word, english.statement(clause)),
        german.subordinate_clause(clause, first=german.relative_pronoun(head, case)),
    )


def _say(subject: Asked, predicate: Predicate, tense: Tense = "present") -> Pair:
    clause = Clause(subject=subject, predicate=predicate, tense=tense)
    return pair(english.statement(clause), german.main_clause(clause))


def _heads(*forms: tuple[str, bool]) -> Space[NounPhrase]:
    grown = NounClass(nouns.PEOPLE.nouns, (of.YOUNG, of.OLD, of.TALL))
    children = NounClass((nouns.CHILD, nouns.GIRL), (of.LITTLE,))
    return any_of(noun_phrases(grown, THE, THE_PLURAL), noun_phrases(children, THE, THE_PLURAL))


def person_who_acts() -> Space[Pair]:
    """The boy who is playing in the garden is very tired. / Der Junge, der im Garten spielt, ist sehr müde."""

    def build(head: NounPhrase, doing: Predicate, state: Adjective, degree: Adjunct) -> Pair:
        clause = Clause(subject=as_relative_subject(head), predicate=doing, tense="progressive")
        return _say(subject_relative(head, clause), being(state, degree))

    occupations = any_of(pastimes(), with_objects([line for line in ownerless(EVERYDAY) if line[0] in OCCUPATIONS]))
    return product(build, _heads(), occupations, one_of(CHARACTERS), one_of([DEGREES[0], DEGREES[1]]))


OCCUPATIONS = (verbs.READ, verbs.WRITE, verbs.EAT, verbs.DRINK, verbs.FEED, verbs.CLEAN, verbs.WATCH, verbs.PAINT)
CHARACTERS = (of.TIRED, of.HAPPY, of.NICE, of.FRIENDLY, of.POLITE, of.CLEVER, of.FUNNY)


def person_who_lives() -> Space[Pair]:
    """The woman who lives next to the church is my aunt."""

    def build(head: NounPhrase, place: Adjunct, identity: NounPhrase) -> Pair:
        clause = Clause(subject=as_relative_subject(head), predicate=Predicate(verbs.LIVE, complements=(place,)))
        who = Adjunct(english.phrase(identity), german.phrase(identity, "nominative"))
        return _say(subject_relative(head, clause), Predicate(verbs.BE, complements=(who,)))

    spots = [Adjunct(f"in {city.english}", f"in {city.german}") for city in adverbs.CITIES]
    spots += [
        Adjunct(f"next to the {noun.english}", f"neben {german.phrase(NounPhrase(noun, 'the'), 'dative')}")
        for noun in LANDMARKS
    ]
    spots += [
        Adjunct(f"in this {noun.english}", f"in {german.phrase(NounPhrase(noun, 'this'), 'dative')}")
        for noun in (nouns.HOUSE, nouns.STREET, nouns.FLAT, nouns.VILLAGE)
    ]
    women = noun_phrases(NounClass((nouns.WOMAN, *nouns.WOMEN_AT_WORK), (of.FRIENDLY, of.TALL, of.NICE)), THE)
    men = noun_phrases(NounClass((nouns.MAN, *nouns.MEN_AT_WORK), (of.FRIENDLY, of.TALL, of.NICE)), THE)
    female = (nouns.SISTER, nouns.AUNT)
    male = (nouns.BROTHER, nouns.UNCLE, nouns.COUSIN, nouns.FRIEND, nouns.NEIGHBOUR)
    return any_of(
        product(build, women, one_of(spots), possessed(female, POSSESSORS)),
        product(build, men, one_of(spots), possessed(male, POSSESSORS)),
    )


LANDMARKS = (
    nouns.CHURCH,
    nouns.SCHOOL,
    nouns.STATION,
    nouns.TOWN_HALL,
    nouns.PARK,
    nouns.BAKERY,
    nouns.PHARMACY,
    nouns.BANK,
)


def thing_that_was_bought() -> Space[Pair]:
    """The coat that I bought yesterday is too small. / Der Mantel, den ich gestern gekauft habe, ist zu klein."""

    def build(
        head: NounPhrase, buyer: Participant, deed: tuple[Verb, Adjunct], quality: Adjective, degree: Adjunct
    ) -> Pair:
        verb, time = deed
        clause = Clause(subject=buyer, predicate=Predicate(verb), tense="past", time=time)
        return _say(object_relative(head, clause, "accusative"), being(quality, degree))

    times = (*adverbs.PAST_TIMES[:3], *adverbs.ON_WEEKDAY, *adverbs.PAST_LONG_TIMES[:2])
    buyers: Space[Participant] = weighted(
        (2, anyone(pronouns("I", "you", "he", "she", "we", "they"))),
        (1, anyone(names())),
        (2, anyone(possessed(nouns.RELATIVES.nouns, POSSESSORS))),
    )
    return any_of(
        *(
            product(
                build,
                noun_phrases(NounClass(things.nouns, (), things.colours), *forms),
                buyers,
                one_of([(verb, time) for verb in deeds for time in times]),
                one_of(things.adjectives),
                one_of([DEGREES[0], DEGREES[1]]),
            )
            for things, deeds, forms in (
                (nouns.CLOTHES, (verbs.BUY,), (THE, THE_PLURAL)),
                (nouns.SHOES_AS_PAIRS, (verbs.BUY, verbs.WEAR), (THE_PLURAL,)),
                (nouns.FURNITURE, (verbs.BUY, verbs.REPAIR), (THE, THE_PLURAL)),
                (nouns.MACHINES, (verbs.BUY, verbs.REPAIR), (THE, THE_PLURAL)),
                (nouns.OWN_VEHICLES, (verbs.BUY, verbs.REPAIR, verbs.SELL), (THE, THE_PLURAL)),
                (nouns.READING, (verbs.READ,), (THE, THE_PLURAL)),
                (nouns.BOOKS, (verbs.BUY,), (THE, THE_PLURAL)),
                (nouns.WRITING, (verbs.WRITE,), (THE, THE_PLURAL)),
                (nouns.PERFORMANCES, (verbs.WATCH,), (THE, THE_PLURAL)),
                (nouns.SONGS, (verbs.SING, verbs.HEAR), (THE, THE_PLURAL)),
            )
        )
    )


def acting_on_something_bought() -> Space[Pair]:
    """Anna is reading the book that her brother bought last week. / Anna liest gerade das Buch, das ..."""

    def build(
        subject: Participant, verb: Verb, thing: NounPhrase, giver: Participant, when: tuple[Verb, Adjunct]
    ) -> Pair:
        main = clause_of(event(subject, Predicate(verb, thing)), "progressive")
        deed, time = when
        clause = Clause(subject=giver, predicate=Predicate(deed), tense="past", time=time)
        return pair(
            english.join(english.statement(main), "that", english.statement(clause)),
            german.join(
                german.main_clause(main),
                ",",
                german.subordinate_clause(clause, first=german.relative_pronoun(thing, "accusative")),
            ),
        )

    times = (*adverbs.PAST_TIMES[:3], *adverbs.ON_WEEKDAY, *adverbs.PAST_LONG_TIMES[:2])
    near: Space[Participant] = anyone(pronouns("I", "you", "we"))
    family: Space[Participant] = anyone(possessed(nouns.RELATIVES.nouns, SPEAKERS))
    friends: Space[Participant] = anyone(first_names())
    workers: Space[Participant] = anyone(noun_phrases(nouns.PEOPLE, THE))

    def about(verb: Verb, things: NounClass, deeds: tuple[Verb, ...], forms: tuple[Form, ...]) -> Space[Pair]:
        phrases = noun_phrases(NounClass(things.nouns, (), things.colours), *forms)
        when = one_of([(deed, time) for deed in deeds for time in times])
        return any_of(
            *(
                product(build, subjects, one_of([verb]), phrases, givers, when)
                for subjects, givers in (
                    (any_of(family, workers), any_of(near, friends)),
                    (friends, any_of(near, family)),
                )
            )
        )

    return any_of(*(about(verb, things, deeds, forms) for verb, things, deeds, forms in ACTED_ON))


ACTED_ON: tuple[tuple[Verb, NounClass, tuple[Verb, ...], tuple[Form, ...]], ...] = (
    (verbs.READ, nouns.BOOKS_TO_READ, (verbs.BUY, verbs.FIND), (THE, THE_PLURAL)),
    (verbs.READ, nouns.MAIL, (verbs.WRITE,), (THE, THE_PLURAL)),
    (verbs.WASH, nouns.LAUNDRY, (verbs.BUY,), (THE,)),
    (verbs.REPAIR, nouns.MACHINES, (verbs.BUY,), (THE,)),
    (verbs.REPAIR, nouns.OWN_VEHICLES, (verbs.BUY,), (THE,)),
    (verbs.EAT, nouns.BAKING, (verbs.BAKE, verbs.BUY), (THE, THE_PLURAL)),
    (verbs.LOOK_FOR, nouns.BELONGINGS, (verbs.LOSE, verbs.FORGET), (THE,)),
    (verbs.PEEL, nouns.PEELABLE, (verbs.BUY,), (THE_PLURAL,)),
    (verbs.WATER, nouns.PLANTS, (verbs.PLANT,), (THE, THE_PLURAL)),
)


def person_whom_one_met() -> Space[Pair]:
    """The student whom we invited is very polite. The woman whom I helped is a doctor."""

    def build(head: NounPhrase, other: Participant, deed: Verb, quality: Adjective, degree: Adjunct) -> Pair:
        clause = Clause(subject=other, predicate=Predicate(deed), tense="past")
        return _say(object_relative(head, clause, deed.object_case), being(quality, degree))

    others: Space[Participant] = any_of(
        anyone(pronouns("I", "you", "he", "she", "we", "they")),
        anyone(names()),
        anyone(possessed(nouns.RELATIVES.nouns, SPEAKERS)),
    )
    deeds = (
        verbs.VISIT,
        verbs.MEET,
        verbs.CALL,
        verbs.PICK_UP,
        verbs.INVITE,
        verbs.ASK,
        verbs.HELP,
        verbs.THANK,
        verbs.ANSWER,
    )
    return product(build, _heads(), others, one_of(deeds), one_of(CHARACTERS), one_of([DEGREES[0], DEGREES[1]]))


def place_in_which_one_lives() -> Space[Pair]:
    """The house in which my aunt lives is very old. / Das Haus, in dem meine Tante wohnt, ist sehr alt."""

    def build(head: NounPhrase, who: Participant, deed: Predicate, quality: Adjective, degree: Adjunct) -> Pair:
        clause = Clause(subject=who, predicate=deed)
        subject = with_relative(
            head,
            english.join("in which", english.statement(clause)),
            german.subordinate_clause(clause, first=f"in {german.relative_pronoun(head, 'dative')}"),
        )
        return _say(subject, being(quality, degree))

    def build_friend(head: NounPhrase, who: Participant, deed: Predicate, quality: Adjective, tense: Tense) -> Pair:
        clause = Clause(subject=who, predicate=deed, tense=tense)
        subject = with_relative(
            head,
            english.join("with whom", english.statement(clause)),
            german.subordinate_clause(clause, first=f"mit {german.relative_pronoun(head, 'dative')}"),
        )
        return _say(subject, being(quality))

    residents = any_of(third_persons(), anyone(pronouns("I", "we")))
    places = any_of(
        *(
            product(
                build,
                noun_phrases(NounClass(places.nouns, ()), THE),
                residents,
                one_of([Predicate(verb) for verb in deeds]),
                one_of(places.adjectives),
                one_of([DEGREES[0], DEGREES[1], DEGREES[3]]),
            )
            for places, deeds in (
                (nouns.HOMES, (verbs.LIVE,)),
                (nouns.TOWNS, (verbs.LIVE, verbs.WORK)),
                (nouns.WORKPLACES, (verbs.WORK,)),
            )
        )
    )
    past: Space[Tense] = one_of(["past"])
    friends = any_of(anyone(names()), anyone(possessed(nouns.RELATIVES.nouns, SPEAKERS)), anyone(pronouns("I", "we")))
    playmates = product(
        build_friend, _heads(), friends, any_of(pastimes_together(), journeys()), one_of(CHARACTERS), past
    )
    return weighted((2, places), (1, playmates))


def pastimes_together() -> Space[Predicate]:
    return one_of(
        [
            *(Predicate(verbs.PLAY, complements=(sport,)) for sport in adverbs.SPORTS),
            Predicate(verbs.DANCE),
            Predicate(verbs.WORK),
            Predicate(verbs.SING),
            Predicate(verbs.COOK),
            Predicate(verbs.GO_SHOPPING),
        ]
    )


def someone_known_who() -> Space[Pair]:
    """I know a man who speaks Italian. / Ich kenne einen Mann, der Italienisch spricht."""

    def build(knower: Participant, head: NounPhrase, clause_predicate: Predicate) -> Pair:
        clause = Clause(subject=as_relative_subject(head), predicate=clause_predicate)
        main = Clause(subject=knower, predicate=Predicate(verbs.KNOW, head))
        return pair(
            english.join(english.statement(main), english.statement(clause)),
            german.join(german.main_clause(main), ",", german.subordinate_clause(clause)),
        )

    skills = one_of(
        [
            *(Predicate(verbs.SPEAK, complements=(language,)) for language in adverbs.LANGUAGES),
            *(Predicate(verbs.LEARN, complements=(language,)) for language in adverbs.LANGUAGES),
            *(Predicate(verbs.PLAY, complements=(thing,)) for thing in adverbs.INSTRUMENTS + adverbs.SPORTS),
            *(
                Predicate(verbs.LIVE, complements=(Adjunct(f"in {city.english}", f"in {city.german}"),))
                for city in adverbs.CITIES + adverbs.COUNTRIES
            ),
        ]
    )
    knowers = any_of(
        anyone(pronouns("I", "he", "she", "we", "they")),
        anyone(names()),
        third_persons_without_pronouns(),
    )
    heads = any_of(
        noun_phrases(NounClass(nouns.PEOPLE.nouns, (of.YOUNG, of.OLD, of.NICE)), A),
        noun_phrases(NounClass((nouns.GIRL, nouns.CHILD), (of.LITTLE, of.CLEVER)), A),
    )
    return product(build, knowers, heads, skills)


def third_persons_without_pronouns() -> Space[Participant]:
    return anyone(possessed(nouns.RELATIVES.nouns, POSSESSORS))
