"""Names, places, prepositions and expressions of time: the words that stand around nouns and verbs."""

from septuagint.data.demo import english, german, nouns
from septuagint.data.demo.lexicon import Adjunct, Place, Preposition
from septuagint.data.demo.meaning import Name

WOMEN = tuple(Name(name, "she") for name in ("Anna", "Julia", "Lisa", "Maria", "Emma", "Sarah"))
MEN = tuple(Name(name, "he") for name in ("Paul", "Peter", "Tom", "Jan", "Leon", "David"))
TITLED_MEN = tuple(Name(name, "he", "Mr.", "Herr") for name in ("Weber", "Becker", "Schmidt", "Wagner"))
TITLED_WOMEN = tuple(Name(name, "she", "Mrs.", "Frau") for name in ("Weber", "Becker", "Schmidt", "Wagner"))

CITIES = (
    Adjunct("Berlin", "Berlin"),
    Adjunct("Hamburg", "Hamburg"),
    Adjunct("Munich", "München"),
    Adjunct("Cologne", "Köln"),
    Adjunct("Vienna", "Wien"),
    Adjunct("Zurich", "Zürich"),
    Adjunct("London", "London"),
    Adjunct("Paris", "Paris"),
    Adjunct("Rome", "Rom"),
)
COUNTRIES = (
    Adjunct("Germany", "Deutschland"),
    Adjunct("Austria", "Österreich"),
    Adjunct("France", "Frankreich"),
    Adjunct("Italy", "Italien"),
    Adjunct("Spain", "Spanien"),
    Adjunct("England", "England"),
)
LANGUAGES = (
    Adjunct("German", "Deutsch"),
    Adjunct("English", "Englisch"),
    Adjunct("French", "Französisch"),
    Adjunct("Spanish", "Spanisch"),
    Adjunct("Italian", "Italienisch"),
)
SPORTS = (Adjunct("football", "Fußball"), Adjunct("tennis", "Tennis"), Adjunct("cards", "Karten"))
INSTRUMENTS = (Adjunct("the piano", "Klavier"), Adjunct("the guitar", "Gitarre"), Adjunct("the violin", "Geige"))

IN = Preposition("in", "in", "dative")
ON = Preposition("on", "auf", "dative")
AT = Preposition("at", "an", "dative")
UNDER = Preposition("under", "unter", "dative")
NEXT_TO = Preposition("next to", "neben", "dative")
BEHIND = Preposition("behind", "hinter", "dative")
IN_FRONT_OF = Preposition("in front of", "vor", "dative")
ON_WALL = Preposition("on", "an", "dative")
INTO = Preposition("into", "in", "accusative")
ONTO = Preposition("on", "auf", "accusative")
PUT_INTO = Preposition("in", "in", "accusative")
PUT_UNDER = Preposition("under", "unter", "accusative")
PUT_NEXT_TO = Preposition("next to", "neben", "accusative")
PUT_BEHIND = Preposition("behind", "hinter", "accusative")
PUT_IN_FRONT_OF = Preposition("in front of", "vor", "accusative")
HANG_ON = Preposition("on", "an", "accusative")
TO = Preposition("to", "zu", "dative")
TO_INSIDE = Preposition("to", "in", "accusative")
TO_EDGE = Preposition("to", "an", "accusative")
TO_OPEN = Preposition("to", "auf", "accusative")
ON_OPEN = Preposition("at", "auf", "dative")
WITH = Preposition("with", "mit", "dative")
WITHOUT = Preposition("without", "ohne", "accusative")
FOR = Preposition("for", "für", "accusative")
FROM = Preposition("from", "von", "dative")
THROUGH = Preposition("through", "durch", "accusative")
WAIT_FOR = Preposition("for", "auf", "accusative")

ROOM_PLACES = tuple(
    Place(room, IN, INTO)
    for room in (nouns.KITCHEN, nouns.LIVING_ROOM, nouns.BEDROOM, nouns.BATHROOM, nouns.CELLAR, nouns.GARAGE)
)
GARDEN = Place(nouns.GARDEN, IN, INTO)
HOUSE = Place(nouns.HOUSE, IN, INTO)
PARK = Place(nouns.PARK, IN, TO_INSIDE)
FOREST = Place(nouns.FOREST, IN, INTO)
OUTDOOR_PLACES = (
    GARDEN,
    PARK,
    FOREST,
    Place(nouns.BEACH, AT, TO_EDGE),
    Place(nouns.LAKE, AT, TO_EDGE),
    Place(nouns.RIVER, AT, TO_EDGE),
    Place(nouns.SEA, Preposition("by", "an", "dative"), TO_EDGE),
    Place(nouns.PLAYGROUND, ON_OPEN, TO_OPEN),
)
INDOOR_PLACES = (
    Place(nouns.CINEMA, IN, TO_INSIDE),
    Place(nouns.THEATRE, IN, TO_INSIDE),
    Place(nouns.MUSEUM, IN, TO_INSIDE),
    Place(nouns.RESTAURANT, IN, TO_INSIDE),
    Place(nouns.CAFE, IN, TO_INSIDE),
    Place(nouns.LIBRARY, IN, TO_INSIDE),
    Place(nouns.HOTEL, IN, TO_INSIDE),
    Place(nouns.HOSPITAL, IN, TO_INSIDE),
    Place(nouns.CHURCH, IN, TO_INSIDE),
    Place(nouns.ZOO, IN, TO_INSIDE),
    Place(nouns.POOL, IN, TO_INSIDE),
)
STATION = Place(nouns.STATION, AT, TO)
AIRPORT = Place(nouns.AIRPORT, AT, TO)
BUS_STOP = Place(nouns.BUS_STOP, AT, TO)
ERRAND_PLACES = (
    STATION,
    AIRPORT,
    BUS_STOP,
    Place(nouns.SUPERMARKET, IN, TO),
    Place(nouns.BAKERY, IN, TO),
    Place(nouns.PHARMACY, IN, TO),
    Place(nouns.BANK, IN, TO),
    Place(nouns.TOWN_HALL, IN, TO),
    Place(nouns.MARKET, ON_OPEN, TO_OPEN),
)

WEEKDAYS = (
    ("Monday", "Montag"),
    ("Tuesday", "Dienstag"),
    ("Wednesday", "Mittwoch"),
    ("Thursday", "Donnerstag"),
    ("Friday", "Freitag"),
    ("Saturday", "Samstag"),
    ("Sunday", "Sonntag"),
)
MONTHS = (
    ("January", "Januar"),
    ("February", "Februar"),
    ("March", "März"),
    ("April", "April"),
    ("May", "Mai"),
    ("June", "Juni"),
    ("July", "Juli"),
    ("August", "August"),
    ("September", "September"),
    ("October", "Oktober"),
    ("November", "November"),
    ("December", "Dezember"),
)
ON_WEEKDAY = tuple(Adjunct(f"on {english_name}", f"am {german_name}") for english_name, german_name in WEEKDAYS)
IN_MONTH = tuple(Adjunct(f"in {english_name}", f"im {german_name}") for english_name, german_name in MONTHS)


def at_clock(hour: int, minute: int) -> Adjunct:
    """at half past seven / um halb acht"""
    return Adjunct(f"at {english.clock_time(hour, minute)}", f"um {german.clock_time(hour, minute)}")


AT_CLOCK = tuple(at_clock(hour, minute) for hour in range(1, 13) for minute in range(0, 60, 5))


TODAY = Adjunct("today", "heute")
YESTERDAY = Adjunct("yesterday", "gestern")
TOMORROW = Adjunct("tomorrow", "morgen")
PAST_TIMES = (
    YESTERDAY,
    Adjunct("this morning", "heute Morgen"),
    Adjunct("yesterday morning", "gestern Morgen"),
    Adjunct("yesterday evening", "gestern Abend"),
    Adjunct("yesterday afternoon", "gestern Nachmittag"),
    Adjunct("the day before yesterday", "vorgestern"),
    Adjunct("an hour ago", "vor einer Stunde"),
    Adjunct("two hours ago", "vor zwei Stunden"),
    Adjunct("two days ago", "vor zwei Tagen"),
    Adjunct("a few days ago", "vor ein paar Tagen"),
)
PAST_WEEKDAYS = tuple(
    Adjunct(f"last {english_name}", f"letzten {german_name}") for english_name, german_name in WEEKDAYS
)
PAST_LONG_TIMES = (
    Adjunct("last week", "letzte Woche"),
    Adjunct("last month", "letzten Monat"),
    Adjunct("last year", "letztes Jahr"),
    Adjunct("last summer", "letzten Sommer"),
    Adjunct("last winter", "letzten Winter"),
    Adjunct("a year ago", "vor einem Jahr"),
    Adjunct("three weeks ago", "vor drei Wochen"),
)
TODAY_EVENING = Adjunct("this evening", "heute Abend")
FUTURE_TIMES = (
    TOMORROW,
    TODAY_EVENING,
    Adjunct("this afternoon", "heute Nachmittag"),
    Adjunct("tomorrow morning", "morgen früh"),
    Adjunct("tomorrow evening", "morgen Abend"),
    Adjunct("the day after tomorrow", "übermorgen"),
    Adjunct("in an hour", "in einer Stunde"),
    Adjunct("in two days", "in zwei Tagen"),
    Adjunct("soon", "bald"),
    Adjunct("later", "später"),
)
FUTURE_WEEKDAYS = tuple(
    Adjunct(f"next {english_name}", f"nächsten {german_name}") for english_name, german_name in WEEKDAYS
)
FUTURE_LONG_TIMES = (
    Adjunct("next week", "nächste Woche"),
    Adjunct("next month", "nächsten Monat"),
    Adjunct("next year", "nächstes Jahr"),
    Adjunct("next summer", "nächsten Sommer"),
    Adjunct("next winter", "nächsten Winter"),
    Adjunct("in two weeks", "in zwei Wochen"),
    Adjunct("in a year", "in einem Jahr"),
)
HABIT_TIMES = (
    Adjunct("every day", "jeden Tag"),
    Adjunct("every morning", "jeden Morgen"),
    Adjunct("every evening", "jeden Abend"),
    Adjunct("every week", "jede Woche"),
    Adjunct("every weekend", "jedes Wochenende"),
)
OFTEN = Adjunct("often", "oft")
FREQUENCIES = (
    OFTEN,
    Adjunct("always", "immer"),
    Adjunct("sometimes", "manchmal"),
    Adjunct("usually", "meistens"),
    Adjunct("rarely", "selten"),
    Adjunct("never", "nie"),
)
GLADLY = Adjunct("", "gern")
BUT = Adjunct("but", "aber")
AND = Adjunct("and", "und")
RIGHT_NOW = Adjunct("", "gerade")
ALREADY = Adjunct("already", "schon")
NOT_YET = Adjunct("yet", "noch nicht")
