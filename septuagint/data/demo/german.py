"""German morphology and word order: declension, conjugation, the sentence bracket, numbers and clock times."""

from dataclasses import dataclass

from septuagint.data.demo.lexicon import Adjective, Adjunct, Case, Gender, Noun, Person, Verb
from septuagint.data.demo.meaning import (
    POSSESSIVE,
    Asked,
    Clause,
    Complement,
    Determiner,
    Name,
    NounPhrase,
    Participant,
    Predicate,
    Pronoun,
)

# Columns: masculine, feminine, neuter, plural.
COLUMNS = ("masculine", "feminine", "neuter", "plural")
DEFINITE_ARTICLE: dict[Case, tuple[str, str, str, str]] = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
    "genitive": ("des", "der", "des", "der"),
}
DIESER_ENDINGS: dict[Case, tuple[str, str, str, str]] = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
    "genitive": ("es", "er", "es", "er"),
}
EIN_ENDINGS: dict[Case, tuple[str, str, str, str]] = {
    "nominative": ("", "e", "", "e"),
    "accusative": ("en", "e", "", "e"),
    "dative": ("em", "er", "em", "en"),
    "genitive": ("es", "er", "es", "er"),
}
WEAK_ENDINGS: dict[Case, tuple[str, str, str, str]] = {
    "nominative": ("e", "e", "e", "en"),
    "accusative": ("en", "e", "e", "en"),
    "dative": ("en", "en", "en", "en"),
    "genitive": ("en", "en", "en", "en"),
}
MIXED_ENDINGS: dict[Case, tuple[str, str, str, str]] = {
    "nominative": ("er", "e", "es", "en"),
    "accusative": ("en", "e", "es", "en"),
    "dative": ("en", "en", "en", "en"),
    "genitive": ("en", "en", "en", "en"),
}
STRONG_ENDINGS: dict[Case, tuple[str, str, str, str]] = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
    "genitive": ("en", "er", "en", "er"),
}
EIN_WORDS: dict[Determiner, str] = {
    "a": "ein",
    "any": "kein",
    "no": "kein",
    "my": "mein",
    "your": "dein",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
    "Your": "Ihr",
}
RELATIVE_PRONOUN: dict[Case, tuple[str, str, str, str]] = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "denen"),
    "genitive": ("dessen", "deren", "dessen", "deren"),
}
# Nominative, accusative, dative.
PRONOUNS: dict[Person, tuple[str, str, str]] = {
    "I": ("ich", "mich", "mir"),
    "you": ("du", "dich", "dir"),
    "he": ("er", "ihn", "ihm"),
    "she": ("sie", "sie", "ihr"),
    "it": ("es", "es", "ihm"),
    "we": ("wir", "uns", "uns"),
    "they": ("sie", "sie", "ihnen"),
    "You": ("Sie", "Sie", "Ihnen"),
}
CONTRACTIONS = {
    "an das": "ans",
    "an dem": "am",
    "bei dem": "beim",
    "in das": "ins",
    "in dem": "im",
    "von dem": "vom",
    "zu dem": "zum",
    "zu der": "zur",
}

# ich, du, er/sie/es, wir, sie/Sie.
VERB_ROW: dict[Person, int] = {"I": 0, "you": 1, "he": 2, "she": 2, "it": 2, "we": 3, "they": 4, "You": 4}
IRREGULAR_PRESENT = {
    "sein": ("bin", "bist", "ist", "sind", "sind"),
    "haben": ("habe", "hast", "hat", "haben", "haben"),
    "werden": ("werde", "wirst", "wird", "werden", "werden"),
    "können": ("kann", "kannst", "kann", "können", "können"),
    "müssen": ("muss", "musst", "muss", "müssen", "müssen"),
    "wollen": ("will", "willst", "will", "wollen", "wollen"),
    "dürfen": ("darf", "darfst", "darf", "dürfen", "dürfen"),
    "mögen": ("mag", "magst", "mag", "mögen", "mögen"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wissen"),
    "möchten": ("möchte", "möchtest", "möchte", "möchten", "möchten"),
    "sollten": ("sollte", "solltest", "sollte", "sollten", "sollten"),
}
# These verbs have the preterite where all others have the perfect; the ich- and er-forms are alike.
PRETERITE_STEM = {
    "sein": "war",
    "haben": "hatte",
    "können": "konnte",
    "müssen": "musste",
    "wollen": "wollte",
    "dürfen": "durfte",
    "wissen": "wusste",
    "liegen": "lag",
    "stehen": "stand",
}
MODAL_VERB = {
    "can": "können",
    "have to": "müssen",
    "want to": "wollen",
    "should": "sollten",
    "may": "dürfen",
    "would like to": "möchten",
}
INSEPARABLE_PREFIXES = ("be", "ver", "er", "ge", "ent", "zer")

UNITS = "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
TEENS = {16: "sechzehn", 17: "siebzehn"}
TENS = "- zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
ORDINAL_STEMS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}


def column(gender: Gender, is_plural: bool) -> int:
    return 3 if is_plural else COLUMNS.index(gender)


def decline_noun(noun: Noun, case: Case, *, is_plural: bool = False) -> str:
    if is_plural:
        needs_n = case == "dative" and not noun.german_plural.endswith(("n", "s"))
        return noun.german_plural + ("n" if needs_n else "")
    if case == "nominative" or noun.gender == "feminine":
        return noun.german
    if noun.is_weak:
        return noun.german_plural
    if case == "genitive":
        return noun.genitive or noun.german + ("es" if noun.german.endswith(("s", "ß", "z", "sch")) else "s")
    return noun.german


def determiner_form(determiner: Determiner, case: Case, gender: Gender, *, is_plural: bool = False) -> str:
    index = column(gender, is_plural)
    match determiner:
        case "":
            return ""
        case "the":
            return DEFINITE_ARTICLE[case][index]
        case "this":
            return "dies" + DIESER_ENDINGS[case][index]
        case "every":
            return "jed" + DIESER_ENDINGS[case][index]
        case _:
            return EIN_WORDS[determiner] + EIN_ENDINGS[case][index]


def decline_adjective(
    adjective: Adjective, determiner: Determiner, case: Case, gender: Gender, *, is_plural: bool = False
) -> str:
    return adjective.stem + _adjective_ending(determiner, case, column(gender, is_plural))


def _adjective_ending(determiner: Determiner, case: Case, index: int) -> str:
    if determiner == "":
        return STRONG_ENDINGS[case][index]
    return (WEAK_ENDINGS if determiner in ("the", "this", "every") else MIXED_ENDINGS)[case][index]


def comparative(adjective: Adjective) -> str:
    return adjective.german_comparative or adjective.stem + "er"


def superlative(adjective: Adjective, case: Case, gender: Gender, *, is_plural: bool = False) -> str:
    """With the ending it takes after a definite article: der älteste."""
    stem = adjective.german_superlative
    if not stem:
        needs_e = adjective.german.endswith(("t", "d", "s", "ß", "z", "sch", "u"))
        stem = adjective.german + ("est" if needs_e else "st")
    return stem + _adjective_ending("the", case, column(gender, is_plural))


def pronoun(pronoun_: Pronoun, case: Case) -> str:
    person = pronoun_.person
    if person == "it":
        person = {"masculine": "he", "feminine": "she", "neuter": "it"}[pronoun_.gender]  # type: ignore[assignment]  # mypy widens the values to str
    return PRONOUNS[person][("nominative", "accusative", "dative").index(case)]


def relative_pronoun(phrase_: NounPhrase, case: Case) -> str:
    return RELATIVE_PRONOUN[case][column(phrase_.noun.gender, phrase_.is_plural)]


def phrase(participant: Participant, case: Case, owner: Person = "I") -> str:
    """A noun phrase, name or pronoun in a case; "own" is resolved for the clause's subject, the `owner`."""
    match participant:
        case Pronoun():
            return pronoun(participant, case)
        case Name():
            return _name(participant, case)
        case Asked():
            return participant.german
        case NounPhrase():
            return _noun_phrase(participant, case, owner)


def _name(name: Name, case: Case) -> str:
    title = name.german_title
    if title == "Herr" and case != "nominative":
        title = "Herrn"
    ending = "s" if case == "genitive" else ""
    return f"{title} {name.name}{ending}".strip()


def _noun_phrase(phrase_: NounPhrase, case: Case, owner: Person) -> str:
    noun, is_plural = phrase_.noun, phrase_.is_plural
    determiner = POSSESSIVE[owner] if phrase_.determiner == "own" else phrase_.determiner
    if phrase_.owner is not None:
        # Annas altes Auto, but das alte Auto meines Bruders.
        determiner = "" if isinstance(phrase_.owner, Name) else "the"
    number = number_words(phrase_.number) if phrase_.number else ""
    adjectives = [
        decline_adjective(adjective, determiner, case, noun.gender, is_plural=is_plural)
        for adjective in phrase_.adjectives
    ]
    before = determiner_form(determiner, case, noun.gender, is_plural=is_plural)
    after = ""
    if phrase_.owner is not None:
        possessor = phrase(phrase_.owner, "genitive", owner)
        before, after = (possessor, "") if isinstance(phrase_.owner, Name) else (before, possessor)
    return join(before, number, *adjectives, decline_noun(noun, case, is_plural=is_plural), after)


def complement(item: Complement, owner: Person = "I") -> str:
    if isinstance(item, Adjunct):
        return item.german
    text = f"{item.preposition.german} {phrase(item.phrase, item.preposition.case, owner)}"
    if isinstance(item.phrase, NounPhrase) and item.phrase.determiner == "the":
        words = text.split(" ", 2)
        contraction = CONTRACTIONS.get(" ".join(words[:2]))
        return join(contraction, *words[2:]) if contraction else text
    return text


def present(infinitive: str, person: Person, third_person: str = "") -> str:
    """A finite form without separable prefix. A third person shows the changed vowel that the du-form shares."""
    row = VERB_ROW[person]
    if infinitive in IRREGULAR_PRESENT:
        return IRREGULAR_PRESENT[infinitive][row]
    third = third_person or _regular_third_person(infinitive)
    if row >= 3:
        return infinitive
    if row == 2:
        return third
    if row == 0:
        return _stem(infinitive) + "e"
    stem = third[:-1]
    return stem + ("t" if stem.endswith(("s", "ß", "z")) else "st")


def _stem(infinitive: str) -> str:
    return infinitive.removesuffix("n").removesuffix("e")


def _regular_third_person(infinitive: str) -> str:
    stem = _stem(infinitive)
    # arbeitet, findet, öffnet, regnet: the ending could not be spoken otherwise.
    return stem + ("et" if stem.endswith(("t", "d", "ffn", "gn", "chn")) else "t")


def preterite(infinitive: str, person: Person) -> str:
    stem, row = PRETERITE_STEM[infinitive], VERB_ROW[person]
    if row == 1:
        return stem + "st"
    return stem + ("n" if stem.endswith("e") else "en") if row >= 3 else stem


def participle(verb: Verb) -> str:
    if verb.participle:
        return verb.participle
    is_unstressed = verb.german.startswith(INSEPARABLE_PREFIXES) or verb.german.endswith("ieren")
    return verb.prefix + ("" if is_unstressed else "ge") + _regular_third_person(verb.german)


def infinitive_with_zu(verb: Verb) -> str:
    return f"{verb.prefix}zu{verb.german}" if verb.prefix else f"zu {verb.german}"


def imperative(verb: Verb) -> str:
    """The du-form without prefix: gib, fahr, warte."""
    if verb.german == "sein":
        return "sei"
    stem = _stem(verb.german)
    third = verb.third_person or _regular_third_person(verb.german)
    if "ä" in third and "ä" not in stem:
        return stem
    if verb.german.endswith("ern"):
        return stem + "e"
    return third[:-1]


@dataclass(frozen=True, slots=True)
class Bracket:
    """A clause in fields: main clauses put the finite verb early, subordinate ones at the end."""

    subject: str
    finite: str
    middle: str
    final: str  # participle or infinitive
    prefix: str  # separable prefix of the finite verb


def bracket(clause: Clause) -> Bracket:
    verb, person = clause.predicate.verb, clause.subject.person
    whole_infinitive = verb.prefix + verb.german
    final, prefix = "", ""
    if clause.modal:
        modal = MODAL_VERB[clause.modal]
        # German says sollte and möchte for should and would like, whatever the tense.
        in_past = clause.tense == "past" and modal in PRETERITE_STEM
        finite, final = (preterite(modal, person) if in_past else present(modal, person)), whole_infinitive
    elif clause.tense == "future":
        finite, final = present("werden", person), whole_infinitive
    elif clause.tense == "perfect" or (clause.tense == "past" and whole_infinitive not in PRETERITE_STEM):
        finite, final = present("sein" if verb.takes_sein else "haben", person), participle(verb)
    elif clause.tense == "past":
        finite = preterite(verb.german, person)
    else:
        finite, prefix = present(verb.german, person, verb.third_person), verb.prefix
    return Bracket(phrase(clause.subject, "nominative", person), finite, middle_field(clause), final, prefix)


def middle_field(clause: Clause) -> str:
    """Pronouns first, then time, noun objects (dative before accusative), negation, and complements."""
    predicate, owner = clause.predicate, clause.subject.person
    pronouns, objects = _objects(predicate, owner)
    times = [item.german for item in (clause.time, clause.frequency) if item]
    complements = [complement(item, owner) for item in predicate.complements]
    is_nicht = clause.is_negated and not _has_kein(predicate)
    if clause.settled:
        return join(*pronouns, *objects, *times, clause.settled.german, *complements)
    if is_nicht or (clause.frequency and _is_person(predicate.object)):
        # A known object precedes the time, so that time and nicht stand together; a person precedes often and never.
        return join(*pronouns, *objects, *times, "nicht" if is_nicht else "", *complements)
    return join(*pronouns, *times, *objects, *complements)


def _objects(predicate: Predicate, owner: Person) -> tuple[list[str], list[str]]:
    """Object pronouns (accusative before dative) and other objects (dative before accusative)."""
    pronouns: list[str] = []
    others: list[str] = []
    if predicate.object is not None:
        text = phrase(predicate.object, predicate.verb.object_case, owner)
        (pronouns if isinstance(predicate.object, Pronoun) else others).append(text)
    if predicate.recipient is not None:
        text = phrase(predicate.recipient, "dative", owner)
        if isinstance(predicate.recipient, Pronoun):
            pronouns.append(text)
        else:
            others.insert(0, text)
    return pronouns, others


def _is_person(participant: Participant | None) -> bool:
    return isinstance(participant, Name) or (isinstance(participant, NounPhrase) and participant.noun.person != "it")


def _has_kein(predicate: Predicate) -> bool:
    return isinstance(predicate.object, NounPhrase) and predicate.object.determiner in ("any", "no")


def main_clause(clause: Clause, *, first: str = "") -> str:
    """Verb second: after the subject, or after `first` (an adverbial, a subordinate clause with its comma) if given."""
    fields = bracket(clause)
    before = (first, fields.finite, fields.subject) if first else (fields.subject, fields.finite)
    return join(*before, fields.middle, fields.final, fields.prefix)


def question(clause: Clause, *, asking: str = "") -> str:
    """Verb first, or second after an interrogative."""
    fields = bracket(clause)
    return join(asking, fields.finite, fields.subject, fields.middle, fields.final, fields.prefix)


def subordinate_clause(clause: Clause, *, first: str = "") -> str:
    """Verb last; `first` is the conjunction or relative pronoun."""
    fields = bracket(clause)
    return join(first, fields.subject, fields.middle, fields.final, fields.prefix + fields.finite)


def zu_clause(predicate: Predicate, owner: Person, *, first: str = "") -> str:
    """um ... zu and plain zu: the infinitive goes last, zu between it and its prefix."""
    clause = Clause(subject=Pronoun(owner), predicate=predicate)
    return join(first, middle_field(clause), infinitive_with_zu(predicate.verb))


def infinitive_phrase(predicate: Predicate, owner: Person) -> str:
    clause = Clause(subject=Pronoun(owner), predicate=predicate)
    return join(middle_field(clause), predicate.verb.prefix + predicate.verb.german)


def command(predicate: Predicate, *, is_polite: bool = False, is_negated: bool = False, please: bool = False) -> str:
    """Mach bitte die Tür zu; machen Sie bitte die Tür zu; vergiss den Schlüssel nicht."""
    person: Person = "You" if is_polite else "you"
    clause = Clause(
        subject=Pronoun(person),
        predicate=predicate,
        is_negated=is_negated,
        time=Adjunct("please", "bitte") if please else None,
    )
    if is_polite:
        verb = ("seien" if predicate.verb.german == "sein" else predicate.verb.german) + " Sie"
    else:
        verb = imperative(predicate.verb)
    return join(verb, middle_field(clause), predicate.verb.prefix)


def number_words(number: int) -> str:
    """A number from 0 to 9999 as one word: dreiundzwanzig, einhundertfünf."""
    if number < 13:
        return UNITS[number]
    if number < 20:
        return TEENS.get(number) or UNITS[number - 10] + "zehn"
    if number < 100:
        tens, unit = divmod(number, 10)
        return (("ein" if unit == 1 else UNITS[unit]) + "und" if unit else "") + TENS[tens]
    size, name = (100, "hundert") if number < 1000 else (1000, "tausend")
    count, rest = divmod(number, size)
    return ("ein" if count == 1 else UNITS[count]) + name + (number_words(rest) if rest else "")


def ordinal(number: int, ending: str = "e") -> str:
    """For dates: der dritte, am einundzwanzigsten."""
    stem = ORDINAL_STEMS.get(number) or number_words(number) + ("t" if number < 20 else "st")
    return stem + ending


def clock_time(hour: int, minute: int) -> str:
    """A time to the next five minutes, hour from 1 to 12: halb acht, Viertel nach drei, fünf vor halb zehn."""
    next_hour = hour % 12 + 1
    match minute:
        case 0:
            return ("ein" if hour == 1 else number_words(hour)) + " Uhr"
        case 30:
            return f"halb {number_words(next_hour)}"
        case 25 | 35:
            return f"fünf {'vor' if minute == 25 else 'nach'} halb {number_words(next_hour)}"
    minutes = minute if minute < 30 else 60 - minute
    side, whole = ("nach", hour) if minute < 30 else ("vor", next_hour)
    return f"{'Viertel' if minutes == 15 else number_words(minutes)} {side} {number_words(whole)}"


def join(*parts: str | None) -> str:
    """Words and phrases with single spaces between them; a comma stands by the word before it."""
    return " ".join(part for part in parts if part).replace(" ,", ",")


def finish(text: str, mark: str) -> str:
    """A clause as a written sentence."""
    return text[0].upper() + text[1:] + mark
