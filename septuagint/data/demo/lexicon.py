"""What a word is: nouns, adjectives, verbs and fixed phrases as they would stand in a bilingual dictionary.

The words themselves are in `nouns`, `adjectives`, `verbs` and `adverbs`. The constructors read the notation of a
printed dictionary, so that an entry fits on one line: `noun("boy", "der Junge", "Jungen", weak=True)`,
`verb("pick|up", "ab|holen")`, `verb("give", "geben gibt gegeben")`, `verb("come", "kommen kommt ist gekommen")`.
"""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["masculine", "feminine", "neuter"]
Case = Literal["nominative", "accusative", "dative", "genitive"]

Person = Literal["I", "you", "he", "she", "it", "we", "they", "You"]
"""A row of the verb and pronoun tables, named by its English pronoun. "You" is the polite German Sie."""

GENDER_OF_ARTICLE: dict[str, Gender] = {"der": "masculine", "die": "feminine", "das": "neuter"}


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun in both languages. A mass noun has no plural; a word such as parents has nothing else."""

    english: str
    german: str
    gender: Gender
    german_plural: str
    english_plural: str  # empty when regular
    genitive: str  # German genitive singular; empty when regular
    is_weak: bool  # takes its plural form everywhere but in the nominative singular: der Junge, den Jungen
    person: Person  # the pronoun that stands for one of them in English


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective with its forms of comparison; empty strings stand for regular forms."""

    english: str
    german: str
    stem: str  # what German endings are added to: teuer, but ein teures Haus
    german_comparative: str
    german_superlative: str  # without ending: größt
    english_comparative: str
    english_superlative: str


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in both languages. English is a base form with whatever follows it directly: go shopping, look for."""

    english: str
    particle: str  # English: pick them up, but pick up the children
    german: str  # infinitive without its separable prefix
    prefix: str
    third_person: str  # German er-form where the stem vowel changes, else empty
    participle: str  # German participle with its prefix where it is irregular, else empty
    takes_sein: bool
    object_case: Case


@dataclass(frozen=True, slots=True)
class Adjunct:
    """A phrase that never changes, the same meaning in both languages: a time, a place name, a predicate adjective."""

    english: str
    german: str


@dataclass(frozen=True, slots=True)
class Preposition:
    english: str
    german: str
    case: Case


@dataclass(frozen=True, slots=True)
class Place:
    """A noun with the prepositions that being there and going there take."""

    noun: Noun
    where: Preposition
    whither: Preposition


@dataclass(frozen=True, slots=True)
class NounClass:
    """Nouns that fit the same sentences, and adjectives that fit all of them. A colour may follow another adjective."""

    nouns: tuple[Noun, ...]
    adjectives: tuple[Adjective, ...]
    colours: tuple[Adjective, ...] = ()


def noun(
    english: str,
    german: str,
    german_plural: str = "",
    *,
    english_plural: str = "",
    genitive: str = "",
    weak: bool = False,
    person: Person = "it",
) -> Noun:
    """An entry such as `noun("table", "der Tisch", "Tische")`."""
    article, word = german.split(" ")
    return Noun(
        english=english,
        german=word,
        gender=GENDER_OF_ARTICLE[article],
        german_plural=german_plural,
        english_plural=english_plural,
        genitive=genitive,
        is_weak=weak,
        person=person,
    )


def adjective(
    english: str, german: str, *, german_forms: str = "", english_forms: str = "", stem: str = ""
) -> Adjective:
    """An entry such as `adjective("good", "gut", german_forms="besser best", english_forms="better best")`."""
    german_comparative, _, german_superlative = german_forms.partition(" ")
    english_comparative, _, english_superlative = english_forms.partition(" ")
    return Adjective(
        english=english,
        german=german,
        stem=stem or german.removesuffix("e"),
        german_comparative=german_comparative,
        german_superlative=german_superlative,
        english_comparative=english_comparative,
        english_superlative=english_superlative,
    )


def verb(english: str, german: str, *, object_case: Case = "accusative") -> Verb:
    """An entry in dictionary notation: infinitive, then er-form and participle if irregular, with "ist" in between."""
    english_base, _, particle = english.partition("|")
    infinitive, *forms = german.split(" ")
    prefix, _, stem_infinitive = infinitive.rpartition("|")
    takes_sein = "ist" in forms
    principal = [form for form in forms if form != "ist"]
    return Verb(
        english=english_base,
        particle=particle,
        german=stem_infinitive,
        prefix=prefix,
        third_person=principal[0] if len(principal) == 2 else "",
        participle=principal[-1] if principal else "",
        takes_sein=takes_sein,
        object_case=object_case,
    )
