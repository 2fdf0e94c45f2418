"""Statements of what animals do."""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, nouns, verbs
from septuagint.data.demo.lexicon import Adjunct, NounClass, Preposition
from septuagint.data.demo.meaning import Complement, NounPhrase, Predicate, Prepositional, Tense
from septuagint.data.demo.participants import BARE_PLURAL, MASS, THE, THE_PLURAL, A, Form, noun_phrases
from septuagint.data.demo.predicates import being_at, clause_of, doing, event, with_objects
from septuagint.data.demo.spaces import Space, any_of, one_of, product
from septuagint.data.demo.statements import Pair, past_times, say, say_after

WILD = (of.BIG, of.SMALL, of.YOUNG, of.OLD, of.HUNGRY, of.TIRED)
DOGS = NounClass((nouns.DOG,), WILD, of.FUR)
CATS = NounClass((nouns.CAT,), WILD, of.FUR)
BIRDS = NounClass((nouns.BIRD,), (of.SMALL, of.BEAUTIFUL), of.FUR)
MINE: tuple[Form, ...] = (("my", False), ("our", False), ("your", False), ("her", False), ("his", False))


LAIRS = tuple(
    Prepositional(preposition, NounPhrase(noun, "the"))
    for preposition, noun in (
        (adverbs.ON, nouns.SOFA),
        (adverbs.ON, nouns.CHAIR),
        (adverbs.UNDER, nouns.BED),
        (adverbs.UNDER, nouns.TABLE),
        (adverbs.NEXT_TO, nouns.CUPBOARD),
        (adverbs.IN_FRONT_OF, nouns.DOOR),
        (adverbs.IN_FRONT_OF, nouns.WINDOW),
    )
)
OUTSIDE: list[Complement] = [
    being_at(adverbs.GARDEN),
    Prepositional(Preposition("in", "auf", "dative"), NounPhrase(nouns.MEADOW, "the")),
]


def what_animals_do() -> Space[Pair]:
    """The cat is sleeping on the sofa. Yesterday our dog ran through the park. The old cat caught a mouse."""

    def build(animal: NounPhrase, predicate: Predicate, tense: Tense) -> Pair:
        return say(clause_of(event(animal, predicate), tense))

    def build_then(animal: NounPhrase, predicate: Predicate, time: Adjunct) -> Pair:
        return say_after(time, clause_of(event(animal, predicate), "past"))

    grounds = [Prepositional(adverbs.THROUGH, NounPhrase(noun, "the")) for noun in GROUNDS]
    mice = with_objects([(verbs.CATCH, NounClass((nouns.MOUSE,), (of.SMALL, of.BIG)), (A, BARE_PLURAL))])
    water = with_objects([(verbs.DRINK, NounClass((nouns.COLD_DRINKS.nouns[1],), ()), (MASS,))])
    milk = with_objects([(verbs.DRINK, NounClass((nouns.MILK,), ()), (MASS,))])
    meat = with_objects([(verbs.EAT_AS_ANIMAL, NounClass(nouns.FOODSTUFFS.nouns[2:], ()), (MASS,))])
    fodder = with_objects(
        [(verbs.EAT_AS_ANIMAL, NounClass((nouns.APPLE, nouns.CARROT, nouns.POTATO), ()), (A, BARE_PLURAL))]
    )
    lives = (
        (
            DOGS,
            any_of(one_of([Predicate(verbs.BARK)]), doing(verbs.RUN, grounds), doing(verbs.SLEEP, LAIRS), meat, water),
        ),
        (CATS, any_of(mice, milk, doing(verbs.SLEEP, LAIRS), doing(verbs.PLAY, OUTSIDE), meat)),
        (BIRDS, any_of(doing(verbs.SING, OUTSIDE), one_of([Predicate(verbs.SING)]), water)),
        (nouns.FARM_ANIMALS, any_of(doing(verbs.SLEEP, OUTSIDE[1:]), fodder, water, doing(verbs.RUN, grounds[:3]))),
    )
    tenses: Space[Tense] = one_of(["past", "progressive"])
    return any_of(
        *(
            any_of(
                product(build, noun_phrases(animals, THE, THE_PLURAL, *MINE), doings, tenses),
                product(build_then, noun_phrases(animals, THE, THE_PLURAL, *MINE), doings, past_times()),
            )
            for animals, doings in lives
        )
    )


GROUNDS = (nouns.GARDEN, nouns.FOREST, nouns.VILLAGE, nouns.PARK)
