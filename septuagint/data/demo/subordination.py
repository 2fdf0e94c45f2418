"""How a main clause and a subordinate clause are put together, and the clauses that many sentences share."""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import adverbs, english, german, verbs
from septuagint.data.demo.descriptions import being
from septuagint.data.demo.lexicon import Adjunct, Verb
from septuagint.data.demo.meaning import (
    Clause,
    Modal,
    Participant,
    Predicate,
    Pronoun,
)
from septuagint.data.demo.spaces import Space, one_of
from septuagint.data.demo.statements import Pair, pair

BECAUSE = Adjunct("because", "weil")
ALTHOUGH = Adjunct("although", "obwohl")
THAT = Adjunct("that", "dass")
IF = Adjunct("if", "wenn")
WHILE = Adjunct("while", "während")
BEFORE = Adjunct("before", "bevor")
AS_CHILD = Adjunct("when", "als")


def main_then_sub(main: Clause, conjunction: Adjunct, sub: Clause) -> Pair:
    return pair(
        english.join(english.statement(main), conjunction.english, english.statement(sub)),
        german.join(german.main_clause(main), ",", german.subordinate_clause(sub, first=conjunction.german)),
    )


def sub_then_main(conjunction: Adjunct, sub: Clause, main: Clause) -> Pair:
    """The subordinate clause takes the first place, so the German main verb follows at once."""
    return pair(
        english.join(conjunction.english, english.statement(sub), ",", english.statement(main)),
        german.main_clause(main, first=german.subordinate_clause(sub, first=conjunction.german) + ","),
    )


def either_order(main: Clause, conjunction: Adjunct, sub: Clause, is_sub_first: bool) -> Pair:
    return sub_then_main(conjunction, sub, main) if is_sub_first else main_then_sub(main, conjunction, sub)


def past_clause(predicate: Predicate, subject: Participant, *, modal: Modal = "", is_negated: bool = False) -> Clause:
    return Clause(subject=subject, predicate=predicate, tense="past", modal=modal, is_negated=is_negated)


def with_complement(verb: Verb, *complements: Adjunct) -> Predicate:
    return Predicate(verb, complements=complements)


DOCTORS = Adjunct("to the doctor", "zur Ärztin")
RAINY = (Predicate(verbs.RAIN), Predicate(verbs.SNOW), being(of.COLD), being(of.COLD, Adjunct("very", "sehr")))
IT = Pronoun("it")


def walks_outside() -> Space[Predicate]:
    return one_of(
        [
            with_complement(verbs.GO, Adjunct("to the beach", "an den Strand")),
            with_complement(verbs.GO, Adjunct("to the park", "in den Park")),
            with_complement(verbs.GO, Adjunct("to the zoo", "in den Zoo")),
            with_complement(verbs.GO, Adjunct("into the forest", "in den Wald")),
            with_complement(verbs.SWIM, Adjunct("in the lake", "im See")),
            with_complement(verbs.HIKE, Adjunct("in the mountains", "in den Bergen")),
            with_complement(verbs.PLAY, adverbs.SPORTS[0]),
            with_complement(verbs.PLAY, adverbs.SPORTS[1]),
        ]
    )
