"""English morphology and word order: phrases, verb groups, clauses, numbers and clock times."""

from septuagint.data.demo.lexicon import Adjective, Noun, Person, Verb
from septuagint.data.demo.meaning import (
    POSSESSIVE,
    Asked,
    Clause,
    Complement,
    Modal,
    Name,
    NounPhrase,
    Participant,
    Predicate,
    Prepositional,
    Pronoun,
    Tense,
)

SUBJECT_PRONOUNS: dict[Person, str] = {person: person for person in ("I", "you", "he", "she", "it", "we", "they")}
SUBJECT_PRONOUNS["You"] = "you"
OBJECT_PRONOUNS: dict[Person, str] = {
    "I": "me",
    "you": "you",
    "he": "him",
    "she": "her",
    "it": "it",
    "we": "us",
    "they": "them",
    "You": "you",
}

# Past tense and past participle of the irregular verbs.
IRREGULAR_VERBS = {
    "be": ("was", "been"),
    "begin": ("began", "begun"),
    "bring": ("brought", "brought"),
    "build": ("built", "built"),
    "buy": ("bought", "bought"),
    "catch": ("caught", "caught"),
    "come": ("came", "come"),
    "cost": ("cost", "cost"),
    "drink": ("drank", "drunk"),
    "drive": ("drove", "driven"),
    "eat": ("ate", "eaten"),
    "feed": ("fed", "fed"),
    "find": ("found", "found"),
    "fly": ("flew", "flown"),
    "forget": ("forgot", "forgotten"),
    "get": ("got", "got"),
    "give": ("gave", "given"),
    "go": ("went", "gone"),
    "hang": ("hung", "hung"),
    "have": ("had", "had"),
    "hear": ("heard", "heard"),
    "know": ("knew", "known"),
    "leave": ("left", "left"),
    "lend": ("lent", "lent"),
    "lie": ("lay", "lain"),
    "lose": ("lost", "lost"),
    "make": ("made", "made"),
    "meet": ("met", "met"),
    "pay": ("paid", "paid"),
    "put": ("put", "put"),
    "read": ("read", "read"),
    "ride": ("rode", "ridden"),
    "run": ("ran", "run"),
    "say": ("said", "said"),
    "see": ("saw", "seen"),
    "sell": ("sold", "sold"),
    "send": ("sent", "sent"),
    "shine": ("shone", "shone"),
    "sing": ("sang", "sung"),
    "sit": ("sat", "sat"),
    "sleep": ("slept", "slept"),
    "speak": ("spoke", "spoken"),
    "stand": ("stood", "stood"),
    "swim": ("swam", "swum"),
    "take": ("took", "taken"),
    "tell": ("told", "told"),
    "think": ("thought", "thought"),
    "understand": ("understood", "understood"),
    "wake": ("woke", "woken"),
    "wear": ("wore", "worn"),
    "write": ("wrote", "written"),
}
# Verbs of one stressed closed syllable, which double their last letter before -ed and -ing.
DOUBLING_VERBS = ("begin", "forget", "get", "put", "run", "sit", "swim")

UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}


def plural(noun: Noun) -> str:
    word = noun.english
    if noun.english_plural:
        return noun.english_plural
    if word.endswith(("s", "x", "sh", "ch")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def third_person(base: str) -> str:
    if base in ("have", "be"):
        return {"have": "has", "be": "is"}[base]
    if base.endswith(("s", "x", "sh", "ch", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def past(base: str) -> str:
    return IRREGULAR_VERBS[base][0] if base in IRREGULAR_VERBS else _regular_past(base)


def past_participle(base: str) -> str:
    return IRREGULAR_VERBS[base][1] if base in IRREGULAR_VERBS else _regular_past(base)


def _regular_past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + base[-1] + "ed" if base in DOUBLING_VERBS else base + "ed"


def present_participle(base: str) -> str:
    if base == "lie":
        return "lying"
    if base in DOUBLING_VERBS:
        return base + base[-1] + "ing"
    return base[:-1] + "ing" if base.endswith("e") and base != "be" else base + "ing"


def be(tense: Tense, person: Person) -> str:
    is_singular = person in ("he", "she", "it")
    if tense == "past":
        return "was" if is_singular or person == "I" else "were"
    return "am" if person == "I" else "is" if is_singular else "are"


def comparative(adjective: Adjective) -> str:
    if adjective.english_comparative:
        return adjective.english_comparative
    return _graded(adjective.english, "er") or "more " + adjective.english


def superlative(adjective: Adjective) -> str:
    if adjective.english_superlative:
        return adjective.english_superlative
    return _graded(adjective.english, "est") or "most " + adjective.english


def _graded(word: str, ending: str) -> str:
    """The word with -er or -est, or nothing when it is too long for that."""
    syllables = sum(
        letter in "aeiouy" and (index == 0 or word[index - 1] not in "aeiouy")
        for index, letter in enumerate(word.removesuffix("e"))
    )
    if word.endswith("y") and syllables <= 2:
        return word[:-1] + "i" + ending
    if syllables == 1:
        return word.removesuffix("e") + ending
    return ""


def article(next_word: str) -> str:
    # By sound; the few written vowels of our words that are spoken as consonants are in "university" and "one".
    return "an" if next_word[0] in "aeiou" and not next_word.startswith(("uni", "one")) else "a"


def number_words(number: int) -> str:
    """A number from 0 to 9999: one hundred and five, two thousand and one, two thousand three hundred."""
    if number < 20:
        return UNITS[number]
    if number < 100:
        tens, unit = divmod(number, 10)
        return TENS[tens] + (f"-{UNITS[unit]}" if unit else "")
    size, name = (100, "hundred") if number < 1000 else (1000, "thousand")
    count, rest = divmod(number, size)
    joint = "" if rest == 0 else " and " if rest < 100 else " "
    return f"{UNITS[count]} {name}" + (joint + number_words(rest) if rest else "")


def ordinal(number: int) -> str:
    """first to thirty-first, for dates."""
    head, hyphen, last = number_words(number).rpartition("-")
    if last in ORDINALS:
        return head + hyphen + ORDINALS[last]
    if last == "twelve":
        return "twelfth"
    return head + hyphen + (last[:-1] + "ie" if last.endswith("y") else last) + "th"


def clock_time(hour: int, minute: int) -> str:
    """A time to the next five minutes, hour from 1 to 12: half past seven, quarter to four, ten past five."""
    if minute == 0:
        return f"{number_words(hour)} o'clock"
    if minute > 30:
        return f"{_minutes(60 - minute)} to {number_words(hour % 12 + 1)}"
    return f"{_minutes(minute)} past {number_words(hour)}"


def _minutes(minutes: int) -> str:
    return {15: "quarter", 30: "half"}.get(minutes) or number_words(minutes)


def phrase(participant: Participant, owner: Person = "I", *, is_subject: bool = False) -> str:
    """A noun phrase, name or pronoun; "own" is resolved for the clause's subject, the `owner`."""
    match participant:
        case Pronoun(person=person):
            return (SUBJECT_PRONOUNS if is_subject else OBJECT_PRONOUNS)[person]
        case Name():
            return f"{participant.english_title} {participant.name}".strip()
        case Asked():
            return participant.english
        case NounPhrase():
            return _noun_phrase(participant, owner)


def _noun_phrase(phrase_: NounPhrase, owner: Person) -> str:
    words = [adjective.english for adjective in phrase_.adjectives]
    words.append(plural(phrase_.noun) if phrase_.is_plural else phrase_.noun.english)
    if phrase_.number:
        words.insert(0, number_words(phrase_.number))
    if phrase_.owner is not None:
        return " ".join([possessive_form(phrase(phrase_.owner, owner)), *words])
    determiner = POSSESSIVE[owner] if phrase_.determiner == "own" else phrase_.determiner
    if determiner == "a":
        determiner_text = article(words[0])
    elif determiner == "this" and phrase_.is_plural:
        determiner_text = "these"
    else:
        determiner_text = determiner.lower()
    return " ".join([determiner_text, *words]).strip()


def possessive_form(text: str) -> str:
    return text + "'" if text.endswith("s") else text + "'s"


def complement(item: Complement, owner: Person = "I") -> str:
    if isinstance(item, Prepositional):
        return f"{item.preposition.english} {phrase(item.phrase, owner)}".strip()
    return item.english


def predicate_rest(predicate: Predicate, owner: Person) -> str:
    """Everything after the verb's first word: the rest of the verb, objects, and complements."""
    verb_tail = predicate.verb.english.partition(" ")[2]
    particle = predicate.verb.particle
    objects: list[str] = []
    object_text = phrase(predicate.object, owner) if predicate.object is not None else ""
    if predicate.recipient is not None:
        recipient_text = phrase(predicate.recipient, owner)
        if isinstance(predicate.object, Pronoun):
            objects = [object_text, "to", recipient_text]
        else:
            objects = [recipient_text, object_text]
    elif isinstance(predicate.object, Pronoun):
        objects = [object_text, particle]
    else:
        objects = [particle, object_text]
    complements = [complement(item, owner) for item in reversed(predicate.complements)]
    return join(verb_tail, *objects, *complements)


def verb_group(verb: Verb, tense: Tense, modal: Modal, person: Person, *, needs_auxiliary: bool) -> tuple[str, str]:
    """The auxiliary (empty if there is none) and the rest: ("is", "reading"), ("", "reads"), ("does", "read")."""
    base = verb.english.partition(" ")[0]
    match modal:
        case "can" | "should" | "may":
            return ("could" if modal == "can" and tense == "past" else modal), base
        case "would like to":
            return "would", f"like to {base}"
        case "have to" | "want to":
            auxiliary, finite = _simple_group(modal.partition(" ")[0], tense, person, needs_auxiliary)
            return auxiliary, f"{finite} to {base}"
        case "":
            return _simple_group(base, tense, person, needs_auxiliary)


def _simple_group(base: str, tense: Tense, person: Person, needs_auxiliary: bool) -> tuple[str, str]:
    if tense == "future":
        return "will", base
    if tense == "progressive":
        return be("present", person), present_participle(base)
    is_third = person in ("he", "she", "it")
    if tense == "perfect":
        return ("has" if is_third else "have"), past_participle(base)
    if base == "be":
        return be(tense, person), ""
    if needs_auxiliary:
        return ("did" if tense == "past" else "does" if is_third else "do"), base
    if tense == "past":
        return "", past(base)
    return "", third_person(base) if is_third else base


def statement(clause: Clause, *, first: str = "") -> str:
    """A main or subordinate clause; English orders both alike. `first` is a fronted adverbial."""
    person = clause.subject.person
    auxiliary, verb = _group_of(clause, needs_auxiliary=clause.is_negated)
    if clause.is_negated:
        auxiliary = negated(auxiliary, clause)
    return join(
        first,
        phrase(clause.subject, person, is_subject=True),
        auxiliary,
        clause.frequency.english if clause.frequency else "",
        clause.settled.english if clause.settled and not clause.is_negated else "",
        verb,
        _after_verb(clause),
    )


def negated(auxiliary: str, clause: Clause) -> str:
    if auxiliary == "may":
        return "must not"
    return "cannot" if auxiliary == "can" else f"{auxiliary} not"


def question(clause: Clause, *, asking: str = "") -> str:
    """A question with inversion, after an interrogative such as "where" if there is one."""
    auxiliary, verb = _group_of(clause, needs_auxiliary=True)
    subject = phrase(clause.subject, clause.subject.person, is_subject=True)
    negation = "not" if clause.is_negated else ""
    frequency = clause.frequency.english if clause.frequency else ""
    return join(asking, auxiliary, subject, negation, frequency, verb, _after_verb(clause))


def infinitive(predicate: Predicate, owner: Person) -> str:
    """read the newspaper"""
    return join(predicate.verb.english.partition(" ")[0], predicate_rest(predicate, owner))


def _group_of(clause: Clause, *, needs_auxiliary: bool) -> tuple[str, str]:
    return verb_group(
        clause.predicate.verb, clause.tense, clause.modal, clause.subject.person, needs_auxiliary=needs_auxiliary
    )


def _after_verb(clause: Clause) -> str:
    rest = predicate_rest(clause.predicate, clause.subject.person)
    late = clause.settled.english if clause.settled and clause.is_negated else ""
    return join(rest, clause.time.english if clause.time else "", late)


def join(*parts: str) -> str:
    """Words and phrases with single spaces between them; a comma stands by the word before it."""
    return " ".join(part for part in parts if part).replace(" ,", ",")


def finish(text: str, mark: str) -> str:
    """A clause as a written sentence."""
    return text[0].upper() + text[1:] + mark
