"""What can be done with what: verbs that take an object, the nouns that suit them, and the forms that sound natural."""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo import nouns, verbs
from septuagint.data.demo.lexicon import Adjective, Noun, NounClass, Verb
from septuagint.data.demo.participants import (
    BARE_PLURAL,
    MASS,
    OWN,
    OWN_PLURAL,
    THE,
    THE_PLURAL,
    THIS,
    A,
    Form,
)

Transitive = tuple[Verb, NounClass, tuple[Form, ...]]


def only(noun: Noun, *adjectives: Adjective) -> NounClass:
    return NounClass((noun,), adjectives)


def plain(noun_class: NounClass) -> NounClass:
    return NounClass(noun_class.nouns, ())


# What anyone may do with a thing, and which forms of the thing sound natural with it.
EVERYDAY: tuple[Transitive, ...] = (
    (verbs.READ, nouns.READING, (A, THE, THIS)),
    (verbs.WRITE, nouns.WRITING, (A,)),
    (verbs.READ, nouns.SENTENCES, (THE, THIS, THE_PLURAL)),
    (verbs.WRITE, nouns.WRITTEN_SENTENCES, (A, BARE_PLURAL)),
    (verbs.TAKE_ALONG, nouns.BELONGINGS, (OWN, THE)),
    (verbs.LEARN, nouns.LESSONS, (A, THE, THIS, THE_PLURAL)),
    (verbs.EAT, nouns.FRUIT, (BARE_PLURAL,)),
    (verbs.EAT, nouns.PIECES, (A,)),
    (verbs.EAT, nouns.BAKING, (A, BARE_PLURAL, THE)),
    (verbs.EAT, nouns.FOODSTUFFS, (MASS,)),
    (verbs.EAT, nouns.STAPLES, (MASS,)),
    (verbs.EAT, nouns.DISHES, (A, THE)),
    (verbs.DRINK, nouns.COLD_DRINKS, (MASS,)),
    (verbs.DRINK, nouns.TEAS, (MASS,)),
    (verbs.COOK, nouns.COOKABLE, (MASS,)),
    (verbs.COOK, only(nouns.SOUP, of.HOT, of.DELICIOUS), (A,)),
    (verbs.MAKE, only(nouns.SALAD, of.FRESH, of.DELICIOUS), (A,)),
    (verbs.MAKE, plain(nouns.TEAS), (MASS,)),
    (verbs.BAKE, nouns.CAKES, (A,)),
    (verbs.BAKE, nouns.PASTRIES, (BARE_PLURAL,)),
    (verbs.BAKE, only(nouns.BREAD, of.FRESH), (MASS,)),
    (verbs.PEEL, nouns.PEELABLE, (THE_PLURAL, BARE_PLURAL)),
    (verbs.WASH, nouns.LAUNDRY, (THE, THE_PLURAL)),
    (verbs.WASH, nouns.DRESSES, (THE, THE_PLURAL)),
    (verbs.WASH, nouns.DISHES_TO_WASH, (THE, THE_PLURAL)),
    (verbs.WASH, nouns.WASHABLE_FOOD, (THE_PLURAL,)),
    (verbs.CLEAN, nouns.ROOMS, (THE,)),
    (verbs.CLEAN, nouns.POLISHABLE_SHOES, (OWN_PLURAL, THE_PLURAL)),
    (verbs.CLEAN, only(nouns.WINDOW, of.BIG, of.DIRTY), (THE, THE_PLURAL)),
    (verbs.TIDY_UP, nouns.ROOMS, (THE,)),
    (verbs.TIDY_UP, only(nouns.ROOM), (OWN,)),
    (verbs.TIDY_UP, only(nouns.CUPBOARD, of.BIG, of.OLD), (THE,)),
    (verbs.OPEN, nouns.OPENINGS, (THE, THE_PLURAL)),
    (verbs.OPEN, nouns.ENTRANCES, (THE,)),
    (verbs.OPEN, nouns.CONTAINERS, (THE, OWN)),
    (verbs.CLOSE, nouns.OPENINGS, (THE, THE_PLURAL)),
    (verbs.CLOSE, nouns.ENTRANCES, (THE,)),
    (verbs.CLOSE, nouns.CONTAINERS, (THE, OWN)),
    (verbs.SWITCH_ON, nouns.SWITCHABLE, (THE,)),
    (verbs.SWITCH_OFF, nouns.SWITCHABLE, (THE,)),
    (verbs.PUT_ON, nouns.SHOES, (OWN_PLURAL,)),
    (verbs.TRY_ON, nouns.SHOES, (THE_PLURAL,)),
    (verbs.PAINT, nouns.MOTIFS, (A,)),
    (verbs.PLANT, nouns.PLANTS, (A, BARE_PLURAL)),
    (verbs.WATER, plain(nouns.PLANTS), (THE_PLURAL,)),
    (verbs.FEED, nouns.HUNGRY_PETS, (THE, OWN)),
    (verbs.FEED, nouns.FARM_ANIMALS, (THE, THE_PLURAL)),
    (verbs.WATCH, nouns.PERFORMANCES, (A, THE, THIS)),
    (verbs.SING, nouns.SONGS, (A, THIS, BARE_PLURAL)),
)
# What takes money, a licence or strength.
GROWN_UP: tuple[Transitive, ...] = (
    (verbs.DRINK, nouns.COFFEES, (MASS,)),
    (verbs.MAKE, plain(nouns.COFFEES), (MASS,)),
    (verbs.BUY, nouns.CLOTHES, (A, THIS)),
    (verbs.BUY, nouns.DRESSES, (A, THIS)),
    (verbs.BUY, nouns.SHOES, (BARE_PLURAL, THE_PLURAL)),
    (verbs.BUY, nouns.FURNITURE, (A, THE)),
    (verbs.BUY, nouns.MACHINES, (A, THIS)),
    (verbs.BUY, nouns.OWN_VEHICLES, (A, THIS)),
    (verbs.BUY, nouns.FRUIT, (BARE_PLURAL,)),
    (verbs.BUY, nouns.VEGETABLES, (BARE_PLURAL,)),
    (verbs.BUY, nouns.FOODSTUFFS, (MASS,)),
    (verbs.BUY, nouns.GROCERIES, (MASS,)),
    (verbs.BUY, nouns.CUTLERY, (BARE_PLURAL,)),
    (verbs.BUY, nouns.BOOKS, (A, THE)),
    (verbs.SELL, nouns.OWN_VEHICLES, (OWN, THE)),
    (verbs.SELL, nouns.FURNITURE, (OWN, THE)),
    (verbs.SELL, nouns.HOMES, (OWN, THE)),
    (verbs.REPAIR, nouns.MACHINES, (THE, OWN)),
    (verbs.REPAIR, nouns.OWN_VEHICLES, (THE, OWN)),
    (verbs.REPAIR, nouns.REPAIRABLE_FURNITURE, (THE,)),
    (verbs.BUILD, only(nouns.SHELF, of.BIG, of.NEW), (A,)),
    (verbs.PAY, only(nouns.BILL), (THE,)),
    (verbs.WASH, nouns.WASHABLE_VEHICLES, (OWN, THE)),
)
# What one person does at a time: several people do not put on a coat.
DRESSING: tuple[Transitive, ...] = (
    (verbs.PUT_ON, nouns.GARMENTS, (OWN, A)),
    (verbs.PUT_ON_HEAD, nouns.HEADGEAR, (OWN, A)),
    (verbs.WASH, nouns.LAUNDRY, (OWN,)),
    (verbs.TRY_ON, nouns.CLOTHES, (A, THE, THIS)),
)
DRESSING_UP: tuple[Transitive, ...] = (
    (verbs.PUT_ON, nouns.DRESSES, (OWN, A)),
    (verbs.TRY_ON, nouns.DRESSES, (A, THE, THIS)),
)
# What one does until it is found; nobody plans it.
SEARCHING: tuple[Transitive, ...] = (
    (verbs.LOOK_FOR, nouns.BELONGINGS, (OWN, THE)),
    (verbs.LOOK_FOR, nouns.CLOTHES, (OWN, THE)),
    (verbs.LOOK_FOR, nouns.TOYS, (OWN, THE)),
)
# What happens in a moment, or to someone: said of the past.
SUDDEN: tuple[Transitive, ...] = (
    (verbs.FIND, nouns.BELONGINGS, (OWN, THE)),
    (verbs.FIND, nouns.TOYS, (A, THE)),
    (verbs.LOSE, nouns.BELONGINGS, (OWN,)),
    (verbs.FORGET, nouns.BELONGINGS, (OWN,)),
    (verbs.GET, nouns.MAIL, (A,)),
    (verbs.GET, nouns.GIFTS, (A,)),
    (verbs.SEE, nouns.PETS, (A, THE)),
    (verbs.SEE, nouns.FARM_ANIMALS, (A, BARE_PLURAL)),
    (verbs.HEAR, nouns.SONGS, (A, THE)),
    (verbs.UNDERSTAND, nouns.TASKS, (THE, THIS, THE_PLURAL)),
    (verbs.ASK_QUESTION, nouns.QUESTIONS, (A,)),
    (verbs.FORGET, nouns.FORGETTABLE, (THE,)),
    (verbs.MISS, nouns.PUBLIC_TRANSPORT, (THE,)),
)


HABITUAL: tuple[Transitive, ...] = (
    (verbs.READ, nouns.HABITUAL_READING, (BARE_PLURAL,)),
    (verbs.WRITE, nouns.MAIL, (BARE_PLURAL,)),
    (verbs.EAT, nouns.FRUIT, (BARE_PLURAL,)),
    (verbs.EAT, plain(nouns.FOODSTUFFS), (MASS,)),
    (verbs.EAT, nouns.STAPLES, (MASS,)),
    (verbs.DRINK, nouns.COLD_DRINKS, (MASS,)),
    (verbs.DRINK, nouns.TEAS, (MASS,)),
    (verbs.COOK, nouns.COOKABLE, (MASS,)),
    (verbs.BAKE, plain(nouns.BAKING), (BARE_PLURAL,)),
    (verbs.WATER, plain(nouns.PLANTS), (THE_PLURAL,)),
    (verbs.FEED, nouns.PETS, (THE, OWN)),
    (verbs.CLEAN, nouns.ROOMS, (THE,)),
    (verbs.WEAR, nouns.SHOES, (BARE_PLURAL,)),
    (verbs.SING, nouns.SONGS, (BARE_PLURAL,)),
    (verbs.TIDY_UP, only(nouns.ROOM), (OWN,)),
)
