"""Statements of giving, helping and belonging: where German needs the dative or the genitive."""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, english, german, nouns, verbs
from septuagint.data.demo.descriptions import DEGREES, being
from septuagint.data.demo.lexicon import Adjective, Adjunct, Noun, NounClass, Verb
from septuagint.data.demo.meaning import (
    Clause,
    Name,
    NounPhrase,
    Participant,
    Predicate,
    Prepositional,
    Tense,
    pronoun_for,
)
from septuagint.data.demo.participants import (
    POSSESSORS,
    THE,
    THE_PLURAL,
    THIS,
    A,
    anyone,
    descendants,
    first_names,
    names,
    noun_phrases,
    others,
    own_relatives,
    possessed,
    pronouns,
    third_persons,
    with_named_objects,
)
from septuagint.data.demo.predicates import Event, clause_of, event
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted
from septuagint.data.demo.statements import Pair, future_times, pair, past_times, say, say_after

HANDED_OVER: tuple[tuple[Verb, tuple[NounClass, ...]], ...] = (
    (verbs.GIVE, (nouns.GIFTS, nouns.TOYS, nouns.BELONGINGS, nouns.BOOKS, nouns.FLOWERS, nouns.BAKING)),
    (verbs.SHOW, (nouns.HANGING, nouns.BELONGINGS, nouns.CLOTHES, nouns.MAIL)),
    (verbs.SEND, (nouns.MAIL, nouns.GIFTS)),
    (verbs.LEND, (nouns.OWN_VEHICLES, nouns.BOOKS, nouns.CLOTHES)),
    (verbs.BRING, (nouns.TABLEWARE, nouns.BAKING, nouns.BOOKS)),
    (verbs.TELL, (nouns.STORIES,)),
)


def _handed(verb: Verb, things: NounClass, recipients: Space[Participant]) -> Space[Predicate]:
    forms = (A,) if verb in (verbs.SEND, verbs.TELL) else (A, THE)
    return product(lambda recipient, thing: Predicate(verb, thing, recipient), recipients, noun_phrases(things, *forms))


def handing(recipients: Space[Participant]) -> Space[Predicate]:
    """To give, show, send ... something to someone."""
    return any_of(
        *(any_of(*(_handed(verb, things, recipients) for things in classes)) for verb, classes in HANDED_OVER)
    )


def _recipients() -> Space[Participant]:
    return weighted((2, anyone(own_relatives())), (1, others()))


def giving() -> Space[Pair]:
    """My father gave the boy a ball. / Mein Vater hat dem Jungen einen Ball gegeben."""

    def build(what: Event, tense: Tense) -> Pair:
        return say(clause_of(what, tense))

    def build_then(what: Event, time: Adjunct) -> Pair:
        return say_after(time, clause_of(what, "past"))

    tenses: Space[Tense] = one_of(["past", "future", "progressive"])
    named = with_named_objects(lambda names_: handing(anyone(names_)))
    events = weighted(
        (3, product(event, descendants(), handing(_recipients()))),
        (1, any_of(*(product(event, subjects, predicates) for subjects, predicates in named))),
    )
    return any_of(product(build, events, tenses), product(build_then, events, past_times()))


def giving_to_pronoun() -> Space[Pair]:
    """Yesterday Anna gave me a book. / Gestern hat Anna mir ein Buch gegeben."""

    def build(what: Event, tense: Tense) -> Pair:
        return say(clause_of(what, tense))

    def build_then(what: Event, time: Adjunct) -> Pair:
        return say_after(time, clause_of(what, "past"))

    hearers: Space[Participant] = anyone(pronouns("I", "you", "we"))
    absent: Space[Participant] = anyone(pronouns("he", "she", "they", "you"))
    tenses: Space[Tense] = one_of(["past", "future"])
    events = any_of(
        product(event, third_persons(), handing(hearers)),
        product(event, anyone(pronouns("I", "we")), handing(absent)),
    )
    return any_of(product(build, events, tenses), product(build_then, events, past_times()))


def giving_it() -> Space[Pair]:
    """Paul bought a ball and gave it to his brother. / Paul hat einen Ball gekauft und ihn seinem Bruder gegeben."""

    def build(subject: Participant, thing: NounPhrase, recipient: Participant, verbs_: tuple[Verb, Verb]) -> Pair:
        getting, passing = verbs_
        first = Clause(subject=subject, predicate=Predicate(getting, thing), tense="past")
        second = Clause(subject=subject, predicate=Predicate(passing, pronoun_for(thing), recipient), tense="past")
        fields = german.bracket(second)
        english_second = english.join(
            english.past(passing.english), english.predicate_rest(second.predicate, subject.person)
        )
        return pair(
            english.join(english.statement(first), "and", english_second),
            german.join(german.main_clause(first), "und", fields.middle, fields.final),
        )

    ways = one_of(
        [(verbs.BUY, verbs.GIVE), (verbs.FIND, verbs.GIVE), (verbs.FIND, verbs.SHOW), (verbs.BUY, verbs.SHOW)]
    )
    things = any_of(
        noun_phrases(nouns.TOYS, A),
        noun_phrases(nouns.BELONGINGS, A),
        noun_phrases(nouns.BOOKS, A),
        noun_phrases(nouns.CLOTHES, A),
        noun_phrases(nouns.SHOES, ("", True)),
    )
    recipients = weighted((3, _recipients()), (1, anyone(pronouns("I", "you", "we"))))
    writing = product(
        build,
        descendants_without_speakers(),
        noun_phrases(nouns.MAIL, A),
        recipients,
        one_of([(verbs.WRITE, verbs.SEND), (verbs.WRITE, verbs.SHOW)]),
    )
    return weighted((4, product(build, descendants_without_speakers(), things, recipients, ways)), (1, writing))


def descendants_without_speakers() -> Space[Participant]:
    return weighted(
        (2, anyone(first_names())),
        (2, anyone(possessed(nouns.RELATIVES.nouns, POSSESSORS))),
        (1, anyone(pronouns("he", "she", "they"))),
    )


def dative_verbs() -> Space[Pair]:
    """I helped my old neighbour. The boy is listening to the teacher. They thanked us."""

    def build(what: Event, tense: Tense) -> Pair:
        return say(clause_of(what, tense))

    def build_then(what: Event, time: Adjunct) -> Pair:
        return say(clause_of(what, "past", time=time))

    def predicate(verb: Verb, person: Participant) -> Predicate:
        return Predicate(verb, person)

    helping = one_of([verbs.HELP, verbs.THANK, verbs.LISTEN, verbs.ANSWER, verbs.FOLLOW])
    hearers: Space[Participant] = anyone(pronouns("I", "you", "we"))
    absent: Space[Participant] = anyone(pronouns("he", "she", "they", "you"))
    named = with_named_objects(lambda names_: product(predicate, helping, anyone(names_)))
    events = any_of(
        product(event, descendants(), product(predicate, helping, _recipients())),
        any_of(*(product(event, subjects, predicates) for subjects, predicates in named)),
        product(event, third_persons(), product(predicate, helping, hearers)),
        product(event, anyone(pronouns("I", "we")), product(predicate, helping, absent)),
    )
    tenses: Space[Tense] = one_of(["past", "progressive"])
    return any_of(product(build, events, tenses), product(build_then, events, past_times()))


def object_pronouns() -> Space[Pair]:
    """My aunt visited us yesterday. I will call you tomorrow. We did not see them."""

    def build(what: Event, tense: Tense, time: Adjunct, is_negated: bool) -> Pair:
        return say(clause_of(what, tense, time=time, is_negated=is_negated))

    def predicate(verb: Verb, person: Participant) -> Predicate:
        return Predicate(verb, person)

    meeting = one_of([verbs.VISIT, verbs.CALL, verbs.PICK_UP, verbs.INVITE, verbs.MEET, verbs.SEE, verbs.ASK])
    hearers: Space[Participant] = anyone(pronouns("I", "you", "we"))
    absent: Space[Participant] = anyone(pronouns("he", "she", "they", "you"))
    events = any_of(
        product(event, third_persons(), product(predicate, meeting, hearers)),
        product(event, anyone(pronouns("I", "we")), product(predicate, meeting, absent)),
    )
    past: Space[Tense] = one_of(["past"])
    future: Space[Tense] = one_of(["future"])
    days = one_of([adverbs.YESTERDAY, *adverbs.PAST_TIMES[1:4], *adverbs.ON_WEEKDAY])
    later_days = one_of([*adverbs.FUTURE_TIMES[:6], *adverbs.ON_WEEKDAY])
    return any_of(
        product(build, events, past, past_times(), one_of([False])),
        product(build, events, past, days, one_of([True])),
        product(build, events, future, future_times(), one_of([False])),
        product(build, events, future, later_days, one_of([True])),
    )


OWNED = (nouns.OWN_VEHICLES, nouns.BELONGINGS, nouns.CLOTHES, nouns.PETS, nouns.HOMES, nouns.BOOKS, nouns.TOYS)


def belonging() -> Space[Pair]:
    """The red bicycle belongs to my sister. / Das rote Fahrrad gehört meiner Schwester."""

    def build(thing: NounPhrase, owner: Participant) -> Pair:
        return say(Clause(subject=thing, predicate=Predicate(verbs.BELONG, owner)))

    owners: Space[Participant] = any_of(
        anyone(names()),
        anyone(possessed(nouns.RELATIVES.nouns, POSSESSORS)),
        anyone(noun_phrases(nouns.PEOPLE, THE)),
        anyone(pronouns("I", "you", "he", "she", "we", "they")),
    )
    return any_of(*(product(build, noun_phrases(things, THE, THIS, THE_PLURAL), owners) for things in OWNED))


def genitive_description() -> Space[Pair]:
    """My brother's car is very old. / Das Auto meines Bruders ist sehr alt. Anna's coat is blue."""

    def build(noun: Noun, owner: NounPhrase | Name, quality: Adjective, degree: Adjunct) -> Pair:
        return say(Clause(subject=NounPhrase(noun, "the", owner=owner), predicate=being(quality, degree)))

    def about(things: NounClass, qualities: tuple[Adjective, ...], degrees: tuple[Adjunct, ...]) -> Space[Pair]:
        return product(build, one_of(things.nouns), owners(), one_of(qualities), one_of(degrees))

    coloured = [things for things in OWNED if things.colours]
    return weighted(
        (2, any_of(*(about(things, things.adjectives, DEGREES[:2]) for things in OWNED))),
        (1, any_of(*(about(things, things.colours, DEGREES[:1]) for things in coloured))),
    )


def owners() -> Space[NounPhrase | Name]:
    by_name: Space[NounPhrase | Name] = product(_owner, one_of(adverbs.WOMEN + adverbs.MEN))
    return any_of(by_name, product(_owner, possessed(nouns.RELATIVES.nouns + nouns.ACQUAINTANCES.nouns, POSSESSORS)))


def _owner(owner: NounPhrase | Name) -> NounPhrase | Name:
    return owner


def genitive_introduction() -> Space[Pair]:
    """This is my uncle's new car. / Das ist das neue Auto meines Onkels."""

    def build(phrase: NounPhrase, owner: NounPhrase | Name) -> Pair:
        thing = NounPhrase(phrase.noun, "the", adjectives=phrase.adjectives, owner=owner)
        return pair(
            english.join("this is", english.phrase(thing)), german.join("das ist", german.phrase(thing, "nominative"))
        )

    return any_of(*(product(build, noun_phrases(things, THE), owners()) for things in OWNED))


def gifts_for_someone() -> Space[Pair]:
    """My aunt baked a delicious cake for us. / Meine Tante hat für uns einen leckeren Kuchen gebacken."""

    def build(subject: Participant, verb: Verb, thing: NounPhrase, receiver: Participant, tense: Tense) -> Pair:
        # German would rather say for whom before what.
        benefit = Prepositional(adverbs.FOR, receiver)
        goods = Adjunct(english.phrase(thing), german.phrase(thing, "accusative"))
        return say(Clause(subject=subject, predicate=Predicate(verb, complements=(benefit, goods)), tense=tense))

    tenses: Space[Tense] = one_of(["past", "future"])
    pronouns_: Space[Participant] = anyone(pronouns("I", "you", "we"))
    relatives: Space[Participant] = anyone(own_relatives())
    making = (
        (verbs.BAKE, nouns.CAKES, A),
        (verbs.BUY, nouns.TOYS, A),
        (verbs.BUY, nouns.CLOTHES, A),
        (verbs.COOK, NounClass((nouns.SOUP,), (of.HOT, of.DELICIOUS)), A),
        (verbs.PAINT, nouns.MOTIFS, A),
        (verbs.WRITE, nouns.VERSES, A),
        (verbs.SING, nouns.SONGS, A),
    )
    return any_of(
        *(
            any_of(
                product(build, third_persons(), one_of([verb]), noun_phrases(things, form), pronouns_, tenses),
                product(build, descendants(), one_of([verb]), noun_phrases(things, form), relatives, tenses),
            )
            for verb, things, form in making
        )
    )
