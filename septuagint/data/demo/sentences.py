"""The synchronous grammar: every frame of the demo language, and how often each is drawn.

A frame is a space of sentence pairs. It draws a meaning and lets `english` and `german` word it independently; nothing
is translated. So that the German is a function of the English, these conventions hold throughout:

- "you" is du; only after a title ("Mr. Weber, can you ...") is it Sie. "your" follows.
- The simple past is the German perfect, except for be, have, know and the modal verbs, which have the preterite (war,
  hatte, wusste, konnte). The English perfect occurs only with "already" (schon) and "not ... yet" (noch nicht).
- The progressive is the German present with gerade; in "while" and relative clauses gerade is left out.
- "will" is werden; "have to" müssen; "may" dürfen and "must not" nicht dürfen; "should" sollte; "would like to"
  möchte; "like to" gern.
- "not" is nicht; "not ... any" and "no" are kein. No negated clause has an object with "a".
- "know" is kennen with people, places and things, wissen with clauses. "go" is fahren with a vehicle and to a city
  or country on a date, else gehen. "put" is legen or stellen, and a thing that "is" somewhere liegt or steht, as the
  thing demands; "put on" is anziehen, but aufsetzen for a hat or cap. "eat" is essen of people, fressen of animals.
- "think" is glauben. "watch" and "see" are sehen; "wear" and "carry" are tragen; one stellt a question.
- "her" and "his" before an object belong to the subject of the clause. Words for people have one gender (see `nouns`).
- "tall" is groß of people and hoch of trees; "small" is said of things and animals and "little" of children (klein).
- "there is" in a town is es gibt; on a piece of furniture the things lie or stand.
- "when" is wann in questions and als in a story; "if" is wenn, "whether" ob.
"""

from functools import cache

from septuagint.data.demo import (
    animals,
    circumstances,
    combinations,
    descriptions,
    exchanges,
    places,
    quantities,
    questions,
    reasons,
    relatives,
    statements,
)
from septuagint.data.demo.spaces import Space, weighted
from septuagint.data.demo.statements import Pair

WEIGHTS = {
    statements.past_statement: 3,
    statements.past_statement_with_fronted_time: 3,
    statements.future_statement: 3,
    statements.future_statement_with_fronted_time: 3,
    statements.progressive_statement: 2,
    statements.habit_statement: 5,
    statements.perfect_statement: 2,
    statements.negated_statement: 2,
    statements.modal_statement: 3,
    statements.outing: 6,
    statements.past_modal_statement: 2,
    statements.negated_modal_statement: 2,
    descriptions.wishes_and_needs: 2,
    descriptions.possession: 3,
    descriptions.likes_to_do: 2,
    descriptions.served_with: 2,
    descriptions.person_state: 1,
    descriptions.thing_description: 3,
    descriptions.contrast_with_pronoun: 3,
    descriptions.comparison: 3,
    descriptions.superlative: 3,
    places.thing_location: 2,
    places.several_things_there: 1,
    places.facilities_there: 1,
    places.putting_things: 3,
    places.person_location: 2,
    places.living_somewhere: 1,
    exchanges.giving: 4,
    exchanges.giving_to_pronoun: 2,
    exchanges.giving_it: 5,
    exchanges.dative_verbs: 2,
    exchanges.object_pronouns: 2,
    exchanges.belonging: 1,
    exchanges.genitive_description: 1,
    exchanges.genitive_introduction: 1,
    exchanges.gifts_for_someone: 3,
    animals.what_animals_do: 5,
    quantities.performance_times: 1,
    quantities.price: 4,
    quantities.high_price: 3,
    quantities.payment: 4,
    quantities.age: 4,
    quantities.timetable: 2,
    quantities.time_of_day: 1,
    quantities.daily_routine: 3,
    quantities.date_today: 2,
    quantities.appointment: 5,
    quantities.weather: 2,
    quantities.counting: 5,
    questions.yes_no_question: 5,
    questions.modal_question: 2,
    questions.polite_question: 2,
    questions.where_question: 2,
    questions.whither_question: 1,
    questions.when_question: 1,
    questions.who_question: 1,
    questions.what_question: 1,
    questions.why_question: 2,
    questions.how_much_question: 1,
    questions.lost_and_found: 1,
    questions.command: 2,
    questions.command_to_someone: 1,
    questions.prohibition: 1,
    questions.suggestion: 1,
    reasons.because_of_oneself: 8,
    reasons.reported_reason: 7,
    reasons.thwarted_plan: 7,
    reasons.because_of_money: 3,
    reasons.because_of_duty: 5,
    reasons.because_it_was_broken: 3,
    reasons.because_of_weather: 4,
    reasons.although_tired: 4,
    reasons.although_expensive: 3,
    circumstances.reported_fact: 6,
    circumstances.whether_question: 5,
    circumstances.if_weather: 6,
    circumstances.if_need: 2,
    circumstances.simultaneous: 8,
    circumstances.before_something: 4,
    circumstances.in_childhood: 4,
    relatives.person_who_acts: 4,
    relatives.person_who_lives: 2,
    relatives.thing_that_was_bought: 6,
    relatives.acting_on_something_bought: 7,
    relatives.person_whom_one_met: 2,
    relatives.place_in_which_one_lives: 3,
    relatives.someone_known_who: 2,
    combinations.forgotten_or_tried: 4,
    combinations.no_time: 3,
    combinations.judgement: 1,
    combinations.purpose: 8,
    combinations.two_people: 7,
    combinations.one_after_the_other: 4,
    combinations.wanted_but: 6,
    combinations.bought_but_unsuitable: 3,
    combinations.profession: 1,
}


@cache
def frames() -> dict[str, Space[Pair]]:
    """Every frame by name."""
    return {frame.__name__: frame() for frame in WEIGHTS}


@cache
def sentence_pairs() -> Space[Pair]:
    """The whole language."""
    return weighted(*((weight, frames()[frame.__name__]) for frame, weight in WEIGHTS.items()))
