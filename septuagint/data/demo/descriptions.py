"""Statements of what people and things are, have, need and like."""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, english, german, nouns, verbs
from septuagint.data.demo.lexicon import Adjective, Adjunct, Noun, NounClass, Verb
from septuagint.data.demo.meaning import (
    Clause,
    Determiner,
    NounPhrase,
    Participant,
    Predicate,
    Prepositional,
    Tense,
    pronoun_for,
)
from septuagint.data.demo.participants import (
    NO,
    NO_PLURAL,
    POSSESSORS,
    THE,
    THE_PLURAL,
    THIS,
    A,
    Form,
    adults,
    anyone,
    counted,
    descendants,
    first_names,
    names,
    noun_phrases,
    others,
    own_relatives,
    people,
    possessed,
    relatives_and_pronouns,
)
from septuagint.data.demo.predicates import (
    Event,
    clause_of,
    habits,
)
from septuagint.data.demo.spaces import Space, any_of, one_of, product, weighted
from septuagint.data.demo.statements import Pair, joined, pair, past_times, say


def wishes_and_needs() -> Space[Pair]:
    """We need a new fridge. Anna loves her grandmother. I know this city."""

    def build(subject: Participant, verb: Verb, phrase: Participant) -> Pair:
        return say(Clause(subject=subject, predicate=Predicate(verb, phrase)))

    needed = any_of(*(noun_phrases(goods, A) for goods in NEEDED))
    liked = any_of(*(noun_phrases(goods, THIS) for goods in LIKED))
    known = any_of(noun_phrases(nouns.TOWNS, THIS), noun_phrases(nouns.SONGS, THIS), noun_phrases(nouns.SIGHTS, THIS))
    return any_of(
        product(build, people(), one_of([verbs.NEED]), needed),
        product(build, people(), one_of([verbs.LIKE]), liked),
        product(build, descendants(), one_of([verbs.LOVE]), own_relatives()),
        product(build, people(), one_of([verbs.KNOW]), known),
        product(build, descendants(), one_of([verbs.KNOW]), others()),
        product(build, relatives_and_pronouns(), one_of([verbs.KNOW]), names()),
    )


NEEDED = (nouns.CLOTHES, nouns.FURNITURE, nouns.MACHINES, nouns.OWN_VEHICLES, nouns.BELONGINGS)
LIKED = (nouns.CLOTHES, nouns.FURNITURE, nouns.SONGS, nouns.PERFORMANCES, nouns.HANGING)


def possession() -> Space[Pair]:
    """Julia has a small dog and two cats. We have no bread."""

    def build(subject: Participant, phrase: NounPhrase, tense: Tense) -> Pair:
        return say(Clause(subject=subject, predicate=Predicate(verbs.HAVE, phrase), tense=tense))

    def build_two(subject: Participant, first: NounPhrase, second: NounPhrase) -> Pair:
        both = Adjunct(f"and {english.phrase(second)}", f"und {german.phrase(second, 'accusative')}")
        return say(Clause(subject=subject, predicate=Predicate(verbs.HAVE, first, complements=(both,))))

    lacking = any_of(
        noun_phrases(_bare(nouns.FOODSTUFFS), NO),
        noun_phrases(nouns.GROCERIES, NO),
        noun_phrases(_bare(nouns.FRUIT), NO_PLURAL),
        noun_phrases(_bare(nouns.VEGETABLES), NO_PLURAL),
        noun_phrases(_bare(nouns.OWN_VEHICLES), NO),
        noun_phrases(_bare(nouns.MACHINES), NO),
        noun_phrases(NounClass((nouns.TIME, nouns.MONEY), ()), NO),
        noun_phrases(_bare(nouns.PETS), NO),
    )
    owned = any_of(
        noun_phrases(nouns.PETS, A),
        noun_phrases(nouns.OWN_VEHICLES, A),
        noun_phrases(nouns.HOMES, A),
        counted(nouns.PETS, range(2, 6)),
    )
    tenses: Space[Tense] = one_of(["present", "past"])
    dogs = noun_phrases(NounClass((nouns.DOG, nouns.BIRD), nouns.PETS.adjectives), A)
    cats = counted(NounClass((nouns.CAT, nouns.HORSE), ()), range(2, 7))
    return weighted(
        (2, product(build, people(), lacking, tenses)),
        (2, product(build, adults(), owned, tenses)),
        (1, product(build_two, adults(), dogs, cats)),
    )


def _bare(noun_class: NounClass) -> NounClass:
    return NounClass(noun_class.nouns, ())


def likes_to_do() -> Space[Pair]:
    """My uncle likes to drink coffee. / Mein Onkel trinkt gern Kaffee."""

    def build(what: Event) -> Pair:
        subject, predicate = what
        person = subject.person
        likes = english.third_person("like") if person in ("he", "she") else "like"
        english_text = english.join(
            english.phrase(subject, person, is_subject=True), likes, "to", english.infinitive(predicate, person)
        )
        return pair(english_text, german.main_clause(clause_of(what, "present", time=adverbs.GLADLY)))

    return product(build, habits())


STATES = (of.TIRED, of.HUNGRY, of.THIRSTY, of.ILL, of.SAD, of.HAPPY, of.ANGRY, of.NERVOUS, of.HEALTHY)
DEGREES = (Adjunct("", ""), Adjunct("very", "sehr"), Adjunct("too", "zu"), Adjunct("really", "wirklich"))


def being(adjective: Adjective, degree: Adjunct = DEGREES[0]) -> Predicate:
    text = Adjunct(english.join(degree.english, adjective.english), german.join(degree.german, adjective.german))
    return Predicate(verbs.BE, complements=(text,))


def person_state() -> Space[Pair]:
    """My aunt was very tired yesterday. Paul is not hungry."""

    def build_now(subject: Participant, state: Adjective, degree: Adjunct, is_negated: bool) -> Pair:
        return say(Clause(subject=subject, predicate=being(state, degree), is_negated=is_negated))

    def build_then(subject: Participant, state: Adjective, degree: Adjunct, time: Adjunct) -> Pair:
        return say(Clause(subject=subject, predicate=being(state, degree), tense="past", time=time))

    def build_character(subject: Participant, trait: Adjective, degree: Adjunct) -> Pair:
        return say(Clause(subject=subject, predicate=being(trait, degree)))

    mild = one_of([DEGREES[0], DEGREES[1], DEGREES[3]])
    traits = (of.FRIENDLY, of.NICE, of.CLEVER, of.POLITE, of.FUNNY, of.STRONG, of.LAZY, of.YOUNG, of.OLD, of.TALL)
    relatives: Space[Participant] = any_of(anyone(first_names()), anyone(possessed(nouns.RELATIVES.nouns, POSSESSORS)))
    return any_of(
        product(build_now, people(), one_of(STATES), mild, one_of([False, True])),
        product(build_then, people(), one_of(STATES[:-1]), mild, past_times()),
        product(build_character, relatives, one_of(traits), mild),
    )


DESCRIBED = (
    nouns.CLOTHES,
    nouns.DRESSES,
    nouns.FURNITURE,
    nouns.MACHINES,
    nouns.OWN_VEHICLES,
    nouns.BELONGINGS,
    nouns.TABLEWARE,
    nouns.READING,
    nouns.TASKS,
    nouns.PETS,
    nouns.FARM_ANIMALS,
    nouns.HOMES,
    nouns.TOWNS,
    nouns.SIGHTS,
    nouns.PLACES,
    nouns.STREETS,
    nouns.BRIDGES,
    nouns.TALL_THINGS,
    nouns.HANGING,
    nouns.SWEETS,
    nouns.ROOMS_TO_DESCRIBE,
    nouns.SEATS,
)


def _named_by_colour(noun_class: NounClass) -> NounClass:
    """Only colours may stand before the noun, so that what is said of it is news."""
    return NounClass(noun_class.nouns, (), noun_class.colours)


def forms_for(things: NounClass) -> tuple[Form, ...]:
    """A home has one kitchen; of most things there are several."""
    return (THE, THIS) if things is nouns.ROOMS_TO_DESCRIBE else (THE, THIS, THE_PLURAL)


def thing_description() -> Space[Pair]:
    """The blue dress is too expensive. These answers are not easy."""

    def build(phrase: NounPhrase, quality: Adjective, degree: Adjunct, tense: Tense, is_negated: bool) -> Pair:
        return say(Clause(subject=phrase, predicate=being(quality, degree), tense=tense, is_negated=is_negated))

    tenses: Space[Tense] = one_of(["present", "past"])

    def about(things: NounClass, qualities: tuple[Adjective, ...], degrees: tuple[Adjunct, ...]) -> Space[Pair]:
        phrases = noun_phrases(_named_by_colour(things), *forms_for(things))
        return product(build, phrases, one_of(qualities), one_of(degrees), tenses, one_of([False, True]))

    mild = (DEGREES[0], DEGREES[1], DEGREES[3])
    excess = [
        about(things, annoying, (DEGREES[2],))
        for things in DESCRIBED
        if (annoying := tuple(quality for quality in things.adjectives if quality in TOO_MUCH))
    ]
    return weighted(
        (3, any_of(*(about(things, things.adjectives, mild) for things in DESCRIBED))), (1, any_of(*excess))
    )


# What a thing can be too much of.
TOO_MUCH = (of.BIG, of.SMALL, of.EXPENSIVE, of.LONG, of.SHORT, of.HEAVY, of.DIFFICULT, of.LOUD, of.SLOW, of.NARROW)


def contrast_with_pronoun() -> Space[Pair]:
    """The table is old, but it is very beautiful. / Der Tisch ist alt, aber er ist sehr schön."""

    def build(phrase: NounPhrase, qualities: tuple[Adjective, Adjective], degree: Adjunct) -> Pair:
        first = Clause(subject=phrase, predicate=being(qualities[0]))
        second = Clause(subject=pronoun_for(phrase), predicate=being(qualities[1], degree))
        return joined(first, adverbs.BUT, second)

    return any_of(
        *(
            product(
                build,
                noun_phrases(_named_by_colour(things), *forms_for(things)),
                one_of(contrasts),
                one_of([DEGREES[0], DEGREES[1]]),
            )
            for things, contrasts in CONTRASTS
        )
    )


CONTRASTS = (
    (nouns.CLOTHES, ((of.OLD, of.BEAUTIFUL), (of.BEAUTIFUL, of.EXPENSIVE), (of.NEW, of.DIRTY), (of.CHEAP, of.WARM))),
    (
        nouns.FURNITURE,
        ((of.OLD, of.BEAUTIFUL), (of.CHEAP, of.BEAUTIFUL), (of.MODERN, of.EXPENSIVE), (of.SMALL, of.HEAVY)),
    ),
    (nouns.OWN_VEHICLES, ((of.OLD, of.FAST), (of.CHEAP, of.SLOW), (of.NEW, of.DIRTY), (of.SMALL, of.EXPENSIVE))),
    (nouns.MACHINES, ((of.OLD, of.GOOD), (of.EXPENSIVE, of.PRACTICAL), (of.SMALL, of.HEAVY))),
    (nouns.READING, ((of.LONG, of.INTERESTING), (of.SHORT, of.BORING), (of.OLD, of.INTERESTING), (of.NEW, of.BORING))),
    (nouns.HOMES, ((of.OLD, of.BEAUTIFUL), (of.SMALL, of.EXPENSIVE), (of.BIG, of.DARK), (of.SMALL, of.BRIGHT))),
    (
        nouns.ROOMS_TO_DESCRIBE,
        ((of.BIG, of.DARK), (of.SMALL, of.BRIGHT), (of.CLEAN, of.DARK), (of.SMALL, of.COMFORTABLE)),
    ),
    (nouns.STREETS, ((of.NARROW, of.BEAUTIFUL), (of.NARROW, of.QUIET), (of.SHORT, of.LOUD))),
    (nouns.SEATS, ((of.OLD, of.COMFORTABLE), (of.SMALL, of.COMFORTABLE), (of.EXPENSIVE, of.COMFORTABLE))),
    (nouns.PETS, ((of.SMALL, of.STRONG), (of.OLD, of.HEALTHY), (of.BEAUTIFUL, of.LAZY), (of.YOUNG, of.CLEVER))),
)


def comparison() -> Space[Pair]:
    """My brother is taller than my sister. This coat is as warm as the jacket."""

    def build(ends: tuple[NounPhrase, NounPhrase], quality: Adjective, is_equal: bool) -> Pair:
        first, second = ends
        be = english.be("present", first.person)
        ist = german.present("sein", first.person)
        if is_equal:
            middle = Adjunct(f"as {quality.english} as", f"genauso {quality.german} wie")
        else:
            middle = Adjunct(f"{english.comparative(quality)} than", f"{german.comparative(quality)} als")
        return pair(
            english.join(english.phrase(first), be, middle.english, english.phrase(second)),
            german.join(german.phrase(first, "nominative"), ist, middle.german, german.phrase(second, "nominative")),
        )

    def ends(
        nouns_: tuple[Noun, ...], determiners: tuple[tuple[Determiner, Determiner], ...]
    ) -> Space[tuple[NounPhrase, NounPhrase]]:
        return one_of(
            [
                (NounPhrase(first, one), NounPhrase(second, other))
                for first in nouns_
                for second in nouns_
                if first is not second
                for one, other in determiners
            ]
        )

    of_things: tuple[tuple[Determiner, Determiner], ...] = (("the", "the"), ("this", "the"), ("my", "your"))
    of_people: tuple[tuple[Determiner, Determiner], ...] = (
        ("my", "my"),
        ("my", "your"),
        ("his", "his"),
        ("her", "her"),
    )
    return any_of(
        *(
            product(build, ends(nouns_, determiners), one_of(qualities), one_of([False, True]))
            for nouns_, determiners, qualities in (
                (nouns.CLOTHES.nouns, of_things, (of.WARM, of.EXPENSIVE, of.BEAUTIFUL, of.CHEAP, of.OLD, of.LONG)),
                (
                    nouns.FURNITURE.nouns,
                    of_things,
                    (of.HEAVY, of.EXPENSIVE, of.CHEAP, of.OLD, of.MODERN),
                ),
                (nouns.SEATS.nouns, of_things, (of.COMFORTABLE,)),
                (nouns.OWN_VEHICLES.nouns, of_things, (of.FAST, of.EXPENSIVE, of.NEW, of.SLOW, of.PRACTICAL)),
                (nouns.PETS.nouns, of_things[:2], (of.BIG, of.SMALL, of.YOUNG, of.CLEVER, of.LAZY)),
                (nouns.FACILITIES.nouns, of_things[:2], (of.OLD, of.BIG, of.MODERN, of.QUIET)),
                (nouns.FRUIT.nouns, of_things[:2], (of.SWEET, of.BIG, of.GOOD, of.FRESH)),
                (nouns.RELATIVES.nouns, of_people, (of.TALL, of.STRONG, of.POLITE, of.FRIENDLY, of.FUNNY, of.CLEVER)),
            )
        )
    )


def superlative() -> Space[Pair]:
    """This is the oldest church in the city. / Das ist die älteste Kirche in der Stadt."""

    def build(noun: Noun, quality: Adjective, scope: Adjunct) -> Pair:
        article = german.determiner_form("the", "nominative", noun.gender)
        return pair(
            english.join("this is the", english.superlative(quality), noun.english, scope.english),
            german.join(
                "das ist", article, german.superlative(quality, "nominative", noun.gender), noun.german, scope.german
            ),
        )

    in_city = [Adjunct("in the city", "in der Stadt"), Adjunct("in the village", "im Dorf")]
    in_cities = [Adjunct(f"in {city.english}", f"in {city.german}") for city in adverbs.CITIES + adverbs.COUNTRIES]
    in_countries = in_cities[len(adverbs.CITIES) :]
    in_shop = [Adjunct("in the shop", "im Geschäft"), Adjunct("", "")]
    return any_of(
        product(
            build,
            one_of(nouns.FACILITIES.nouns),
            one_of((of.OLD, of.BIG, of.SMALL, of.MODERN, of.BEAUTIFUL)),
            one_of(in_city + in_cities),
        ),
        product(
            build,
            one_of(nouns.CLOTHES.nouns + nouns.DRESSES.nouns + nouns.FURNITURE.nouns),
            one_of((of.EXPENSIVE, of.CHEAP, of.BEAUTIFUL, of.BIG)),
            one_of(in_shop),
        ),
        product(
            build,
            one_of((nouns.TREE, nouns.TOWER)),
            one_of((of.TALL_AND_HIGH, of.BEAUTIFUL, of.OLD)),
            one_of(in_cities + in_city),
        ),
        product(
            build,
            one_of((nouns.MOUNTAIN, nouns.LAKE, nouns.FOREST)),
            one_of((of.BEAUTIFUL, of.BIG)),
            one_of(in_countries),
        ),
        product(build, one_of((nouns.STREET,)), one_of((of.NARROW, of.QUIET, of.LOUD)), one_of(in_city)),
        product(
            build,
            one_of((nouns.STREET, nouns.BRIDGE, nouns.RIVER)),
            one_of((of.LONG, of.BEAUTIFUL)),
            one_of(in_city + in_cities),
        ),
    )


def served_with() -> Space[Pair]:
    """My father always drinks coffee without sugar. / Mein Vater trinkt immer Kaffee ohne Zucker."""

    def build(subject: Participant, verb: Verb, dish: Noun, extra: Prepositional, often: Adjunct) -> Pair:
        both = Adjunct(f"{dish.english} {english.complement(extra)}", f"{dish.german} {german.complement(extra)}")
        return say(Clause(subject=subject, predicate=Predicate(verb, complements=(both,)), frequency=often))

    def extras(*foods: Noun) -> Space[Prepositional]:
        ways = (adverbs.WITH, adverbs.WITHOUT)
        return one_of([Prepositional(way, NounPhrase(food, "")) for way in ways for food in foods])

    often = one_of(adverbs.FREQUENCIES)
    butter = nouns.GROCERIES.nouns[2]
    cheese, meat = nouns.FOODSTUFFS.nouns[1:3]
    return any_of(
        product(
            build,
            adults(),
            one_of([verbs.DRINK]),
            one_of(nouns.HOT_DRINKS.nouns),
            extras(nouns.MILK, nouns.SUGAR),
            often,
        ),
        product(build, people(), one_of([verbs.EAT]), one_of([nouns.BREAD]), extras(butter, cheese), often),
        product(build, people(), one_of([verbs.EAT]), one_of([nouns.STAPLES.nouns[0]]), extras(meat, butter), often),
    )
