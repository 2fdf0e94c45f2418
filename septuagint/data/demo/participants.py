"""Spaces of the people and things that sentences are about."""

from collections.abc import Callable
from functools import cache
from typing import TypeVar

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, nouns
from septuagint.data.demo.lexicon import Adjective, Noun, NounClass
from septuagint.data.demo.meaning import Determiner, Name, NounPhrase, Participant, Pronoun
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted

Form = tuple[Determiner, bool]
"""A determiner, and whether the noun is in the plural."""

A: Form = ("a", False)
THE: Form = ("the", False)
THIS: Form = ("this", False)
OWN: Form = ("own", False)
NO: Form = ("no", False)
MASS: Form = ("", False)
THE_PLURAL: Form = ("the", True)
THESE: Form = ("this", True)
OWN_PLURAL: Form = ("own", True)
NO_PLURAL: Form = ("no", True)
BARE_PLURAL: Form = ("", True)
KNOWN_FORMS = (THE, THIS, OWN, THE_PLURAL, THESE, OWN_PLURAL)

T = TypeVar("T")

POSSESSORS: tuple[Determiner, ...] = ("my", "your", "our", "his", "her")
SPEAKERS: tuple[Determiner, ...] = ("my", "your", "our")
GRANDPARENTS = tuple(noun for noun in nouns.RELATIVES.nouns if noun.english.startswith("grand"))
OFFSPRING = (nouns.SON, nouns.DAUGHTER)


def adjective_choices(noun_class: NounClass) -> Space[tuple[Adjective, ...]]:
    """No adjective, one, or one and a colour."""
    single = noun_class.adjectives + noun_class.colours
    if not single:
        return one_of([()])
    choices: list[tuple[int, Space[tuple[Adjective, ...]]]] = [
        (3, one_of([()])),
        (4, one_of([(adjective,) for adjective in single])),
    ]
    if noun_class.adjectives and noun_class.colours:
        two = [(adjective, colour) for adjective in noun_class.adjectives for colour in noun_class.colours]
        choices.append((1, one_of(two)))
    return weighted(*choices)


def noun_phrases(noun_class: NounClass, *forms: Form) -> Space[NounPhrase]:
    """Phrases such as "a big table" or "these red shoes" with any of the forms."""

    def build(noun: Noun, form: Form, adjectives: tuple[Adjective, ...]) -> NounPhrase:
        determiner, is_plural = form
        return NounPhrase(noun, determiner, is_plural, adjectives)

    return product(build, one_of(noun_class.nouns), one_of(forms), adjective_choices(noun_class))


def counted(noun_class: NounClass, numbers: range = range(2, 13)) -> Space[NounPhrase]:
    """two old books ... twelve old books"""

    def build(noun: Noun, number: int, adjectives: tuple[Adjective, ...]) -> NounPhrase:
        return NounPhrase(noun, "", True, adjectives, number=number)

    return product(build, one_of(noun_class.nouns), one_of(numbers), adjective_choices(noun_class))


def possessed(people: tuple[Noun, ...], determiners: tuple[Determiner, ...]) -> Space[NounPhrase]:
    return product(NounPhrase, one_of(people), one_of(determiners))


def described(noun_class: NounClass, determiners: tuple[Determiner, ...]) -> Space[NounPhrase]:
    """Possessed, and always with an adjective: my little sister."""

    def build(noun: Noun, determiner: Determiner, adjective: Adjective) -> NounPhrase:
        return NounPhrase(noun, determiner, False, (adjective,))

    return product(build, one_of(noun_class.nouns), one_of(determiners), one_of(noun_class.adjectives))


def anyone(space: Space[NounPhrase] | Space[Name] | Space[Pronoun]) -> Space[Participant]:
    """The same space with the wider type."""
    return product(_same, space)


def _same(participant: Participant) -> Participant:
    return participant


def _as_participants(*spaces: tuple[int, Space[NounPhrase] | Space[Name] | Space[Pronoun]]) -> Space[Participant]:
    return weighted(*((weight, anyone(space)) for weight, space in spaces))


@cache
def names() -> Space[Name]:
    return weighted((5, one_of(adverbs.WOMEN + adverbs.MEN)), (1, one_of(adverbs.TITLED_MEN + adverbs.TITLED_WOMEN)))


@cache
def first_names() -> Space[Name]:
    return one_of(adverbs.WOMEN + adverbs.MEN)


def pronouns(*persons: str) -> Space[Pronoun]:
    return one_of([Pronoun(person) for person in ("I", "you", "he", "she", "we", "they") if person in persons])


@cache
def adults() -> Space[Participant]:
    grown = tuple(noun for noun in nouns.RELATIVES.nouns if noun not in OFFSPRING)
    grown_people = NounClass(
        tuple(noun for noun in nouns.PEOPLE.nouns if noun is not nouns.BOY), nouns.PEOPLE.adjectives
    )
    return _as_participants(
        (4, names()),
        (4, possessed(grown, POSSESSORS)),
        (1, described(nouns.ACQUAINTANCES, SPEAKERS)),
        (1, possessed(nouns.ACQUAINTANCES.nouns, POSSESSORS)),
        (4, noun_phrases(grown_people, THE)),
        (5, pronouns("I", "you", "he", "she", "we", "they")),
        (1, several_adults()),
    )


@cache
def several_adults() -> Space[NounPhrase]:
    colleagues = (nouns.FRIEND, nouns.NEIGHBOUR, nouns.COLLEAGUE)
    elders = (nouns.PARENTS, nouns.GRANDPARENTS)
    groups = NounClass((nouns.STUDENT, nouns.MAN, nouns.WOMAN, nouns.FARMER, nouns.TOURIST), (of.YOUNG, of.FRIENDLY))
    return any_of(
        product(_plural, one_of(elders), one_of(POSSESSORS)),
        product(_plural, one_of(colleagues), one_of(SPEAKERS)),
        noun_phrases(groups, THE_PLURAL),
    )


def _plural(noun: Noun, determiner: Determiner) -> NounPhrase:
    return NounPhrase(noun, determiner, True)


@cache
def minors() -> Space[Participant]:
    """Children and others who are too young for some of what adults do."""
    boys = NounClass((nouns.BOY,), nouns.CHILDREN.adjectives)
    return _as_participants(
        (2, noun_phrases(boys, THE)),
        (2, noun_phrases(nouns.CHILDREN, THE_PLURAL)),
        (1, possessed(OFFSPRING, POSSESSORS)),
        (2, described(nouns.SIBLINGS, POSSESSORS)),
        (1, product(_plural, one_of([nouns.CHILD]), one_of(SPEAKERS))),
    )


@cache
def women() -> Space[Participant]:
    relatives = tuple(noun for noun in nouns.RELATIVES.nouns if noun.person == "she")
    strangers = NounClass((nouns.WOMAN, *nouns.WOMEN_AT_WORK), nouns.PEOPLE.adjectives)
    return _as_participants(
        (2, one_of(adverbs.WOMEN)),
        (1, one_of(adverbs.TITLED_WOMEN)),
        (2, possessed(relatives, POSSESSORS)),
        (2, noun_phrases(strangers, THE)),
        (1, pronouns("she")),
    )


@cache
def individuals() -> Space[Participant]:
    """One person at a time."""
    return _as_participants(
        (2, names()),
        (2, possessed(nouns.RELATIVES.nouns, POSSESSORS)),
        (2, noun_phrases(nouns.PEOPLE, THE)),
        (1, described(nouns.SIBLINGS, POSSESSORS)),
        (1, pronouns("I", "he", "she")),
    )


@cache
def people() -> Space[Participant]:
    """Whoever may be the subject of an everyday sentence. Each can be referred to by a pronoun afterwards."""
    return weighted((3, adults()), (1, minors()))


@cache
def familiar_people() -> Space[Participant]:
    """Subjects who may well have a living grandmother, and who do not occur in `others`."""
    younger = tuple(noun for noun in nouns.RELATIVES.nouns if noun not in GRANDPARENTS)
    return _as_participants(
        (3, first_names()),
        (3, possessed(younger, POSSESSORS)),
        (1, described(nouns.SIBLINGS, POSSESSORS)),
        (2, noun_phrases(NounClass(FAMILIAR_AT_WORK, (of.YOUNG, of.CLEVER, of.NICE)), THE)),
        (1, noun_phrases(nouns.CHILDREN, THE_PLURAL)),
    )


FAMILIAR_AT_WORK = (nouns.STUDENT, nouns.NURSE, nouns.BAKER)


@cache
def descendants() -> Space[Participant]:
    return weighted((5, familiar_people()), (2, anyone(pronouns("I", "you", "he", "she", "we", "they"))))


@cache
def relatives_and_pronouns() -> Space[Participant]:
    """Subjects without a name, so that the object may have one."""
    return _as_participants(
        (2, possessed(nouns.RELATIVES.nouns, POSSESSORS)),
        (1, described(nouns.SIBLINGS, POSSESSORS)),
        (2, pronouns("I", "you", "he", "she", "we", "they")),
    )


@cache
def women_by_name() -> Space[Name]:
    return weighted((3, one_of(adverbs.WOMEN)), (1, one_of(adverbs.TITLED_WOMEN)))


@cache
def men_by_name() -> Space[Name]:
    return weighted((3, one_of(adverbs.MEN)), (1, one_of(adverbs.TITLED_MEN)))


def with_named_objects(
    predicates: Callable[[Space[Name]], Space[T]],
) -> tuple[tuple[Space[Participant], Space[T]], ...]:
    """Subjects with predicates about somebody by name: nobody visits herself, and Mr. Weber does not help Mr. Weber."""
    return (
        (relatives_and_pronouns(), predicates(names())),
        (anyone(women_by_name()), predicates(men_by_name())),
        (anyone(men_by_name()), predicates(women_by_name())),
    )


@cache
def third_persons() -> Space[Participant]:
    """Subjects that are neither speaker nor listener."""
    return _as_participants(
        (3, names()),
        (3, possessed(nouns.RELATIVES.nouns, POSSESSORS)),
        (2, noun_phrases(nouns.PEOPLE, THE)),
        (1, described(nouns.ACQUAINTANCES, SPEAKERS)),
        (1, pronouns("he", "she", "they")),
        (1, several_adults()),
    )


@cache
def own_relatives() -> Space[NounPhrase]:
    """Relatives and acquaintances of the clause's subject."""
    older = tuple(noun for noun in nouns.RELATIVES.nouns if noun not in OFFSPRING)
    return weighted(
        (3, possessed(older, ("own",))),
        (1, possessed(nouns.ACQUAINTANCES.nouns, ("own",))),
        (1, described(nouns.ACQUAINTANCES, ("own",))),
        (1, product(_plural, one_of([nouns.PARENTS, nouns.GRANDPARENTS, nouns.FRIEND]), one_of(_OWN))),
    )


_OWN: tuple[Determiner, ...] = ("own",)


@cache
def others() -> Space[Participant]:
    """Strangers who are met, seen or helped."""
    strangers = tuple(noun for noun in nouns.PEOPLE.nouns if noun not in FAMILIAR_AT_WORK)
    return _as_participants(
        (2, noun_phrases(NounClass(strangers, nouns.PEOPLE.adjectives), THE, A)),
        (1, noun_phrases(nouns.CHILDREN, THE)),
    )
