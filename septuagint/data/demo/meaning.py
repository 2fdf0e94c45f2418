"""What a sentence says, before either language has put it into words.

`english` and `german` both take these values; neither looks at the other's text.
"""

from dataclasses import dataclass
from typing import Literal

from septuagint.data.demo.lexicon import Adjective, Adjunct, Gender, Noun, Person, Preposition, Verb

Determiner = Literal[
    "", "the", "a", "this", "every", "any", "no", "my", "your", "his", "her", "our", "their", "Your", "own"
]
"""Named in English. "own" becomes the possessive of the clause's subject; "any" is German kein; "Your" is Ihr."""

POSSESSIVE: dict[Person, Determiner] = {
    "I": "my",
    "you": "your",
    "he": "his",
    "she": "her",
    "it": "its",  # type: ignore[dict-item]  # never asked for: things own nothing here
    "we": "our",
    "they": "their",
    "You": "Your",
}

Tense = Literal["present", "progressive", "past", "perfect", "future"]
Modal = Literal["", "can", "have to", "want to", "should", "may", "would like to"]


@dataclass(frozen=True, slots=True)
class Pronoun:
    person: Person
    gender: Gender = "neuter"  # of the noun it stands for, when the person is "it"


@dataclass(frozen=True, slots=True)
class Name:
    """Somebody by name; with a title, Herr is declined and the name is not."""

    name: str
    person: Person
    english_title: str = ""
    german_title: str = ""


@dataclass(frozen=True, slots=True)
class NounPhrase:
    noun: Noun
    determiner: Determiner
    is_plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    number: int = 0  # counted when not zero: three old books
    owner: "NounPhrase | Name | None" = None  # stands in place of the determiner: my brother's car

    @property
    def person(self) -> Person:
        return "they" if self.is_plural else self.noun.person


@dataclass(frozen=True, slots=True)
class Asked:
    """The unknown subject of a question (who, what) or the subject of a relative clause (who, that; der, die, das)."""

    english: str
    german: str
    person: Person


Participant = Pronoun | Name | NounPhrase | Asked


@dataclass(frozen=True, slots=True)
class Prepositional:
    preposition: Preposition
    phrase: Participant


Complement = Adjunct | Prepositional


@dataclass(frozen=True, slots=True)
class Predicate:
    """A verb and what it needs. Complements are in German order; English says them the other way round."""

    verb: Verb
    object: Participant | None = None
    recipient: Participant | None = None
    complements: tuple[Complement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    subject: Participant
    predicate: Predicate
    tense: Tense = "present"
    modal: Modal = ""
    is_negated: bool = False
    time: Adjunct | None = None
    frequency: Adjunct | None = None  # often, never: before the English verb
    settled: Adjunct | None = None  # already, not yet: goes after a German object


def pronoun_for(participant: Participant) -> Pronoun:
    """The pronoun that refers back: the table ... it, der Tisch ... er."""
    if isinstance(participant, NounPhrase):
        return Pronoun(participant.person, participant.noun.gender)
    return Pronoun(participant.person)
