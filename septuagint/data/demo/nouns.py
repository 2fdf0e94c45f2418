"""The nouns, grouped by what one can do with them.

English words for people that could be a man or a woman have one fixed gender here: teacher, doctor, singer and dentist
are women (die Lehrerin); neighbour, friend, student, colleague and all others are men (der Nachbar).
"""

from septuagint.data.demo import adjectives as of
from septuagint.data.demo.lexicon import Noun, NounClass, noun

MOTHER = noun("mother", "die Mutter", "Mütter", person="she")
FATHER = noun("father", "der Vater", "Väter", person="he")
SISTER = noun("sister", "die Schwester", "Schwestern", person="she")
BROTHER = noun("brother", "der Bruder", "Brüder", person="he")
DAUGHTER = noun("daughter", "die Tochter", "Töchter", person="she")
SON = noun("son", "der Sohn", "Söhne", person="he", genitive="Sohnes")
AUNT = noun("aunt", "die Tante", "Tanten", person="she")
UNCLE = noun("uncle", "der Onkel", "Onkel", person="he")
COUSIN = noun("cousin", "der Cousin", "Cousins", person="he")
FRIEND = noun("friend", "der Freund", "Freunde", person="he", genitive="Freundes")
NEIGHBOUR = noun("neighbour", "der Nachbar", "Nachbarn", weak=True, person="he")
COLLEAGUE = noun("colleague", "der Kollege", "Kollegen", weak=True, person="he")
PARENTS = noun("parents", "die Eltern", "Eltern", english_plural="parents", person="they")
GRANDPARENTS = noun("grandparents", "die Großeltern", "Großeltern", english_plural="grandparents", person="they")
CHILD = noun("child", "das Kind", "Kinder", english_plural="children", genitive="Kindes")
GIRL = noun("girl", "das Mädchen", "Mädchen")
MAN = noun("man", "der Mann", "Männer", english_plural="men", person="he", genitive="Mannes")
WOMAN = noun("woman", "die Frau", "Frauen", english_plural="women", person="she")
BOY = noun("boy", "der Junge", "Jungen", weak=True, person="he")

SIBLINGS = NounClass((SISTER, BROTHER), (of.LITTLE, of.NICE, of.FUNNY))
RELATIVES = NounClass(
    (
        MOTHER,
        FATHER,
        DAUGHTER,
        SON,
        SISTER,
        BROTHER,
        noun("grandmother", "die Großmutter", "Großmütter", person="she"),
        noun("grandfather", "der Großvater", "Großväter", person="he"),
        AUNT,
        UNCLE,
        COUSIN,
    ),
    (),
)
ACQUAINTANCES = NounClass((FRIEND, NEIGHBOUR, COLLEAGUE), (of.NICE, of.OLD, of.CLEVER, of.FUNNY))

TEACHER = noun("teacher", "die Lehrerin", "Lehrerinnen", person="she")
DOCTOR = noun("doctor", "die Ärztin", "Ärztinnen", person="she")
SINGER = noun("singer", "die Sängerin", "Sängerinnen", person="she")
DENTIST = noun("dentist", "die Zahnärztin", "Zahnärztinnen", person="she")
NURSE = noun("nurse", "die Krankenschwester", "Krankenschwestern", person="she")
BAKER = noun("baker", "der Bäcker", "Bäcker", person="he")
FARMER = noun("farmer", "der Bauer", "Bauern", weak=True, person="he")
POLICEMAN = noun("policeman", "der Polizist", "Polizisten", weak=True, english_plural="policemen", person="he")
STUDENT = noun("student", "der Student", "Studenten", weak=True, person="he")
TOURIST = noun("tourist", "der Tourist", "Touristen", weak=True, person="he")
WAITER = noun("waiter", "der Kellner", "Kellner", person="he")
GARDENER = noun("gardener", "der Gärtner", "Gärtner", person="he")
MEN_AT_WORK = (BAKER, FARMER, POLICEMAN, STUDENT, WAITER, GARDENER)
WOMEN_AT_WORK = (TEACHER, DOCTOR, SINGER, DENTIST, NURSE)
PEOPLE = NounClass(
    (
        MAN,
        WOMAN,
        *MEN_AT_WORK,
        *WOMEN_AT_WORK,
        noun("guest", "der Gast", "Gäste", person="he"),
        TOURIST,
    ),
    (of.YOUNG, of.OLD, of.FRIENDLY, of.NICE, of.TALL, of.CLEVER, of.POLITE, of.FUNNY),
)
CHILDREN = NounClass((CHILD, GIRL, BOY), (of.LITTLE, of.FRIENDLY, of.CLEVER, of.FUNNY, of.NICE))

DOG = noun("dog", "der Hund", "Hunde")
CAT = noun("cat", "die Katze", "Katzen")
HORSE = noun("horse", "das Pferd", "Pferde")
BIRD = noun("bird", "der Vogel", "Vögel")
MOUSE = noun("mouse", "die Maus", "Mäuse", english_plural="mice")
PETS = NounClass(
    (DOG, CAT, BIRD, noun("rabbit", "das Kaninchen", "Kaninchen")),
    (of.BIG, of.SMALL, of.YOUNG, of.OLD, of.BEAUTIFUL, of.LAZY),
    of.FUR,
)
FARM_ANIMALS = NounClass(
    (
        HORSE,
        noun("cow", "die Kuh", "Kühe"),
        noun("pig", "das Schwein", "Schweine"),
        noun("duck", "die Ente", "Enten"),
        noun("goat", "die Ziege", "Ziegen"),
    ),
    (of.BIG, of.SMALL, of.YOUNG, of.OLD, of.BEAUTIFUL, of.LAZY),
    of.FUR,
)

FRUIT = NounClass(
    (
        noun("apple", "der Apfel", "Äpfel"),
        noun("pear", "die Birne", "Birnen"),
        noun("banana", "die Banane", "Bananen"),
        noun("orange", "die Orange", "Orangen"),
        noun("cherry", "die Kirsche", "Kirschen"),
        noun("strawberry", "die Erdbeere", "Erdbeeren"),
    ),
    (of.RIPE, of.SWEET, of.FRESH, of.BIG, of.SMALL),
)
VEGETABLES = NounClass(
    (
        noun("potato", "die Kartoffel", "Kartoffeln", english_plural="potatoes"),
        noun("tomato", "die Tomate", "Tomaten", english_plural="tomatoes"),
        noun("carrot", "die Karotte", "Karotten"),
        noun("onion", "die Zwiebel", "Zwiebeln"),
        noun("egg", "das Ei", "Eier"),
    ),
    (of.FRESH, of.BIG, of.SMALL, of.CHEAP),
)
CAKE = noun("cake", "der Kuchen", "Kuchen")
PIZZA = noun("pizza", "die Pizza", "Pizzas")
BAKING = NounClass(
    (CAKE, PIZZA, noun("roll", "das Brötchen", "Brötchen"), noun("biscuit", "der Keks", "Kekse")),
    (of.FRESH, of.DELICIOUS, of.SMALL, of.BIG, of.WARM),
)
DISHES = NounClass(
    (noun("soup", "die Suppe", "Suppen"), noun("salad", "der Salat", "Salate"), noun("egg", "das Ei", "Eier")),
    (of.DELICIOUS,),
)
SOUP, SALAD, EGG = DISHES.nouns
BREAD = noun("bread", "das Brot")
SUGAR = noun("sugar", "der Zucker")
MILK = noun("milk", "die Milch")
FOODSTUFFS = NounClass(
    (
        BREAD,
        noun("cheese", "der Käse"),
        noun("meat", "das Fleisch"),
        noun("fish", "der Fisch"),
    ),
    (of.FRESH, of.GOOD),
)
STAPLES = NounClass((noun("rice", "der Reis"), noun("chocolate", "die Schokolade")), ())
GROCERIES = NounClass((*STAPLES.nouns, noun("butter", "die Butter"), SUGAR), ())
COOKABLE = NounClass((*FOODSTUFFS.nouns[2:], STAPLES.nouns[0]), ())
TEA = noun("tea", "der Tee")
COFFEE = noun("coffee", "der Kaffee")
HOT_DRINKS = NounClass((TEA, COFFEE), (of.HOT, of.STRONG, of.GOOD))
TEAS = NounClass((TEA,), (of.HOT, of.STRONG, of.GOOD))
COFFEES = NounClass((COFFEE,), TEAS.adjectives)
COLD_DRINKS = NounClass(
    (
        MILK,
        noun("water", "das Wasser"),
        noun("juice", "der Saft"),
        noun("apple juice", "der Apfelsaft"),
        noun("lemonade", "die Limonade"),
        noun("orange juice", "der Orangensaft"),
    ),
    (of.COLD,),
)

CLOTHES = NounClass(
    (
        noun("shirt", "das Hemd", "Hemden"),
        noun("coat", "der Mantel", "Mäntel"),
        noun("jacket", "die Jacke", "Jacken"),
        noun("hat", "der Hut", "Hüte"),
        noun("scarf", "der Schal", "Schals", english_plural="scarves"),
        noun("jumper", "der Pullover", "Pullover"),
        noun("cap", "die Mütze", "Mützen"),
        noun("raincoat", "der Regenmantel", "Regenmäntel"),
    ),
    (of.NEW, of.OLD, of.BEAUTIFUL, of.WARM, of.CHEAP, of.EXPENSIVE),
    of.COLOURS,
)
LAUNDRY = NounClass(CLOTHES.nouns, (of.DIRTY, of.OLD, of.WARM), of.COLOURS)
DRESSES = NounClass(
    (noun("dress", "das Kleid", "Kleider"), noun("skirt", "der Rock", "Röcke"), noun("blouse", "die Bluse", "Blusen")),
    (of.NEW, of.OLD, of.BEAUTIFUL, of.CHEAP, of.EXPENSIVE, of.LONG, of.SHORT),
    of.COLOURS,
)
SHOES = NounClass(
    (
        noun("shoe", "der Schuh", "Schuhe"),
        noun("boot", "der Stiefel", "Stiefel"),
        noun("glove", "der Handschuh", "Handschuhe"),
        noun("sock", "die Socke", "Socken"),
    ),
    (of.NEW, of.OLD, of.BEAUTIFUL, of.WARM, of.CHEAP, of.EXPENSIVE),
    of.COLOURS,
)

TABLE = noun("table", "der Tisch", "Tische")
CHAIR = noun("chair", "der Stuhl", "Stühle")
BED = noun("bed", "das Bett", "Betten")
SOFA = noun("sofa", "das Sofa", "Sofas")
CUPBOARD = noun("cupboard", "der Schrank", "Schränke")
SHELF = noun("shelf", "das Regal", "Regale", english_plural="shelves")
LAMP = noun("lamp", "die Lampe", "Lampen")
DESK = noun("desk", "der Schreibtisch", "Schreibtische")
KITCHEN_TABLE = noun("kitchen table", "der Küchentisch", "Küchentische")
ARMCHAIR = noun("armchair", "der Sessel", "Sessel")
WALL = noun("wall", "die Wand", "Wände")
WINDOW = noun("window", "das Fenster", "Fenster")
DOOR = noun("door", "die Tür", "Türen")
FURNITURE = NounClass(
    (
        TABLE,
        CHAIR,
        BED,
        SOFA,
        CUPBOARD,
        SHELF,
        LAMP,
        DESK,
        KITCHEN_TABLE,
        ARMCHAIR,
        noun("garden chair", "der Gartenstuhl", "Gartenstühle"),
    ),
    (of.NEW, of.OLD, of.BIG, of.SMALL, of.BEAUTIFUL, of.CHEAP, of.EXPENSIVE, of.MODERN),
    of.COLOURS,
)
HANGING = NounClass(
    (
        noun("picture", "das Bild", "Bilder"),
        noun("mirror", "der Spiegel", "Spiegel"),
        noun("clock", "die Uhr", "Uhren"),
        noun("calendar", "der Kalender", "Kalender"),
    ),
    (of.NEW, of.OLD, of.BIG, of.SMALL, of.BEAUTIFUL),
)
PICTURE = HANGING.nouns[0]
OPENINGS = NounClass((WINDOW, DOOR), (of.BIG, of.SMALL, of.OLD, of.NEW))
ENTRANCES = NounClass((noun("front door", "die Haustür", "Haustüren"), noun("gate", "das Tor", "Tore")), ())

CAR = noun("car", "das Auto", "Autos")
MOTORBIKE = noun("motorbike", "das Motorrad", "Motorräder")
BICYCLE = noun("bicycle", "das Fahrrad", "Fahrräder")
OWN_VEHICLES = NounClass(
    (CAR, BICYCLE, MOTORBIKE, noun("boat", "das Boot", "Boote")),
    (of.NEW, of.OLD, of.FAST, of.EXPENSIVE, of.CHEAP),
    of.COLOURS,
)
MACHINES = NounClass(
    (
        noun("computer", "der Computer", "Computer"),
        noun("camera", "die Kamera", "Kameras"),
        noun("fridge", "der Kühlschrank", "Kühlschränke"),
        noun("washing machine", "die Waschmaschine", "Waschmaschinen"),
        noun("coffee machine", "die Kaffeemaschine", "Kaffeemaschinen"),
        noun("alarm clock", "der Wecker", "Wecker"),
        noun("phone", "das Telefon", "Telefone"),
    ),
    (of.NEW, of.OLD, of.EXPENSIVE, of.CHEAP, of.MODERN, of.PRACTICAL),
)
SWITCHABLE = NounClass(
    (
        noun("radio", "das Radio", "Radios"),
        noun("television", "der Fernseher", "Fernseher"),
        noun("light", "das Licht", "Lichter"),
        noun("heating", "die Heizung", "Heizungen"),
        LAMP,
        *(
            machine
            for machine in MACHINES.nouns
            if machine.english in ("computer", "washing machine", "coffee machine")
        ),
    ),
    (),
)

BOTTLE = noun("bottle", "die Flasche", "Flaschen")
WALLET = noun("wallet", "der Geldbeutel", "Geldbeutel")
PASSPORT = noun("passport", "der Pass", "Pässe")
BASKET = noun("basket", "der Korb", "Körbe")
KEY = noun("key", "der Schlüssel", "Schlüssel")
UMBRELLA = noun("umbrella", "der Regenschirm", "Regenschirme")
SUITCASE = noun("suitcase", "der Koffer", "Koffer")
BAG = noun("bag", "die Tasche", "Taschen")
DOLL = noun("doll", "die Puppe", "Puppen")
PENCIL = noun("pencil", "der Bleistift", "Bleistifte")
BALL = noun("ball", "der Ball", "Bälle")
GIFT = noun("gift", "das Geschenk", "Geschenke")
BELONGINGS = NounClass(
    (
        KEY,
        UMBRELLA,
        BAG,
        SUITCASE,
        WALLET,
        PASSPORT,
        noun("house key", "der Hausschlüssel", "Hausschlüssel"),
        noun("backpack", "der Rucksack", "Rucksäcke"),
        noun("ring", "der Ring", "Ringe"),
    ),
    (of.NEW, of.OLD, of.SMALL),
)
TOYS = NounClass(
    (
        BALL,
        DOLL,
        PENCIL,
        noun("balloon", "der Luftballon", "Luftballons"),
    ),
    (of.NEW, of.BEAUTIFUL, of.SMALL, of.BIG),
    of.COLOURS,
)
TABLEWARE = NounClass(
    (
        noun("cup", "die Tasse", "Tassen"),
        noun("plate", "der Teller", "Teller"),
        noun("glass", "das Glas", "Gläser"),
        BOTTLE,
    ),
    (of.CLEAN, of.SMALL, of.BIG, of.EMPTY, of.OLD),
)
CUTLERY = NounClass(
    (
        noun("spoon", "der Löffel", "Löffel"),
        noun("knife", "das Messer", "Messer", english_plural="knives"),
        noun("fork", "die Gabel", "Gabeln"),
    ),
    (of.CLEAN, of.SMALL, of.BIG, of.NEW),
)

COOKBOOK = noun("cookbook", "das Kochbuch", "Kochbücher")
DICTIONARY = noun("dictionary", "das Wörterbuch", "Wörterbücher")
MAGAZINE = noun("magazine", "die Zeitschrift", "Zeitschriften")
NEWSPAPER = noun("newspaper", "die Zeitung", "Zeitungen")
BOOK = noun("book", "das Buch", "Bücher")
POEM = noun("poem", "das Gedicht", "Gedichte")
STORY = noun("story", "die Geschichte", "Geschichten")
REPORT = noun("report", "der Bericht", "Berichte")
LETTER = noun("letter", "der Brief", "Briefe")
READING = NounClass(
    (
        BOOK,
        LETTER,
        NEWSPAPER,
        MAGAZINE,
        STORY,
        POEM,
        REPORT,
    ),
    (of.NEW, of.OLD, of.INTERESTING, of.GOOD, of.LONG, of.SHORT),
)
WRITING = NounClass(
    (
        LETTER,
        noun("e-mail", "die E-Mail", "E-Mails"),
        noun("postcard", "die Postkarte", "Postkarten"),
        STORY,
        REPORT,
        POEM,
    ),
    (of.LONG, of.SHORT, of.FUNNY, of.BEAUTIFUL, of.INTERESTING),
)
MAIL = NounClass(WRITING.nouns[:3], (of.SHORT, of.FUNNY, of.BEAUTIFUL))
QUESTION = noun("question", "die Frage", "Fragen")
ANSWER = noun("answer", "die Antwort", "Antworten")
SENTENCE = noun("sentence", "der Satz", "Sätze")
WORD = noun("word", "das Wort", "Wörter")
RULE = noun("rule", "die Regel", "Regeln")
TASKS = NounClass(
    (
        QUESTION,
        ANSWER,
        SENTENCE,
        WORD,
        RULE,
    ),
    (of.DIFFICULT, of.EASY, of.IMPORTANT, of.SHORT),
)
SONG = noun("song", "das Lied", "Lieder")
FILM = noun("film", "der Film", "Filme")
PERFORMANCES = NounClass((FILM, noun("match", "das Spiel", "Spiele")), (of.LONG, of.INTERESTING, of.GOOD))
SONGS = NounClass((SONG,), (of.OLD, of.BEAUTIFUL, of.SAD, of.FUNNY, of.FAMOUS))
BILL = noun("bill", "die Rechnung", "Rechnungen")
MONEY = noun("money", "das Geld")
TIME = noun("time", "die Zeit")
PLANTS = NounClass(
    (noun("tree", "der Baum", "Bäume"), noun("flower", "die Blume", "Blumen"), noun("rose", "die Rose", "Rosen")),
    (of.BEAUTIFUL, of.SMALL, of.BIG),
)
TREE, FLOWER, ROSE = PLANTS.nouns

KITCHEN = noun("kitchen", "die Küche", "Küchen")
BEDROOM = noun("bedroom", "das Schlafzimmer", "Schlafzimmer")
LIVING_ROOM = noun("living room", "das Wohnzimmer", "Wohnzimmer")
BATHROOM = noun("bathroom", "das Badezimmer", "Badezimmer")
CELLAR = noun("cellar", "der Keller", "Keller")
GARAGE = noun("garage", "die Garage", "Garagen")
GARDEN = noun("garden", "der Garten", "Gärten")
OFFICE = noun("office", "das Büro", "Büros")
CLASSROOM = noun("classroom", "das Klassenzimmer", "Klassenzimmer")
HOUSE = noun("house", "das Haus", "Häuser")
FLAT = noun("flat", "die Wohnung", "Wohnungen")
ROOM = noun("room", "das Zimmer", "Zimmer")
ROOMS = NounClass((KITCHEN, BEDROOM, LIVING_ROOM, BATHROOM, CELLAR, GARAGE, OFFICE, CLASSROOM), ())
HOMES = NounClass((HOUSE, FLAT), (of.OLD, of.NEW, of.BIG, of.SMALL, of.MODERN, of.BEAUTIFUL, of.BRIGHT))

CITY = noun("city", "die Stadt", "Städte")
VILLAGE = noun("village", "das Dorf", "Dörfer")
STREET = noun("street", "die Straße", "Straßen")
TOWNS = NounClass((CITY, VILLAGE), (of.OLD, of.SMALL, of.BEAUTIFUL, of.QUIET))
SCHOOL = noun("school", "die Schule", "Schulen")
CINEMA = noun("cinema", "das Kino", "Kinos")
THEATRE = noun("theatre", "das Theater", "Theater")
MUSEUM = noun("museum", "das Museum", "Museen")
PARK = noun("park", "der Park", "Parks")
SUPERMARKET = noun("supermarket", "der Supermarkt", "Supermärkte")
RESTAURANT = noun("restaurant", "das Restaurant", "Restaurants")
CAFE = noun("café", "das Café", "Cafés")
CHURCH = noun("church", "die Kirche", "Kirchen")
LIBRARY = noun("library", "die Bibliothek", "Bibliotheken")
HOSPITAL = noun("hospital", "das Krankenhaus", "Krankenhäuser")
STATION = noun("station", "der Bahnhof", "Bahnhöfe")
AIRPORT = noun("airport", "der Flughafen", "Flughäfen")
MARKET = noun("market", "der Markt", "Märkte")
BAKERY = noun("bakery", "die Bäckerei", "Bäckereien")
PHARMACY = noun("pharmacy", "die Apotheke", "Apotheken")
BUS_STOP = noun("bus stop", "die Bushaltestelle", "Bushaltestellen")
HOTEL = noun("hotel", "das Hotel", "Hotels")
POOL = noun("swimming pool", "das Schwimmbad", "Schwimmbäder")
BANK = noun("bank", "die Bank", "Banken")
ZOO = noun("zoo", "der Zoo", "Zoos")
PLAYGROUND = noun("playground", "der Spielplatz", "Spielplätze")
TOWN_HALL = noun("town hall", "das Rathaus", "Rathäuser")
BRIDGE = noun("bridge", "die Brücke", "Brücken")
TOWER = noun("tower", "der Turm", "Türme")
SIGHTS = NounClass((MUSEUM, CHURCH, THEATRE, TOWN_HALL), (of.OLD, of.FAMOUS, of.BEAUTIFUL, of.BIG))
FACILITIES = NounClass(
    (
        MUSEUM,
        CHURCH,
        THEATRE,
        CINEMA,
        PARK,
        SUPERMARKET,
        RESTAURANT,
        CAFE,
        LIBRARY,
        HOTEL,
        POOL,
        SCHOOL,
        BANK,
        PHARMACY,
    ),
    (of.SMALL, of.BIG, of.OLD, of.NEW, of.MODERN, of.BEAUTIFUL),
)

FOREST = noun("forest", "der Wald", "Wälder")
LAKE = noun("lake", "der See", "Seen")
RIVER = noun("river", "der Fluss", "Flüsse")
SEA = noun("sea", "das Meer", "Meere")
BEACH = noun("beach", "der Strand", "Strände")
MEADOW = noun("meadow", "die Wiese", "Wiesen")
MOUNTAIN = noun("mountain", "der Berg", "Berge")
SUN = noun("sun", "die Sonne", "Sonnen")

TRAIN = noun("train", "der Zug", "Züge")
BUS = noun("bus", "der Bus", "Busse", genitive="Busses")
PLANE = noun("plane", "das Flugzeug", "Flugzeuge")
TRAM = noun("tram", "die Straßenbahn", "Straßenbahnen")
TAXI = noun("taxi", "das Taxi", "Taxis")
SHIP = noun("ship", "das Schiff", "Schiffe")
WEATHER = noun("weather", "das Wetter")
BIRTHDAY = noun("birthday", "der Geburtstag", "Geburtstage")
WORK = noun("work", "die Arbeit")

APPLE, PEAR, BANANA, ORANGE, CHERRY, STRAWBERRY = FRUIT.nouns
POTATO, TOMATO, CARROT, ONION, _ = VEGETABLES.nouns
SHOE, BOOT, GLOVE, SOCK = SHOES.nouns
BOOKS_TO_READ = NounClass((BOOK, MAGAZINE, NEWSPAPER, COOKBOOK), ())
SENTENCES = NounClass((SENTENCE,), (of.SHORT, of.DIFFICULT, of.LONG))
LESSONS = NounClass((WORD, RULE, POEM, SONG), (of.NEW, of.DIFFICULT, of.SHORT))
GIFTS = NounClass((GIFT,), (of.BEAUTIFUL, of.SMALL, of.BIG, of.EXPENSIVE))
ROOMS_TO_DESCRIBE = NounClass(
    (KITCHEN, BEDROOM, LIVING_ROOM, CELLAR, OFFICE, CLASSROOM), (of.BIG, of.SMALL, of.CLEAN, of.DARK, of.BRIGHT)
)
QUESTIONS = NounClass((QUESTION,), (of.DIFFICULT, of.EASY, of.IMPORTANT, of.SHORT))
BAKERY_GOODS = NounClass((CAKE, *BAKING.nouns[2:]), (of.FRESH, of.DELICIOUS, of.SMALL, of.BIG))
SEATS = NounClass((SOFA, ARMCHAIR, CHAIR, BED), (of.COMFORTABLE,), of.COLOURS)
DEAR_MACHINES = NounClass(MACHINES.nouns[:4], (of.NEW, of.OLD, of.MODERN))
CONCERT = noun("concert", "das Konzert", "Konzerte")
PURCHASES = NounClass((UMBRELLA, BAG, SUITCASE, WALLET, *BELONGINGS.nouns[-2:]), (of.NEW, of.SMALL, of.BEAUTIFUL))
CAKES = NounClass((CAKE, PIZZA), (of.FRESH, of.DELICIOUS, of.SMALL, of.BIG))
PASTRIES = NounClass(BAKING.nouns[2:], (of.FRESH, of.DELICIOUS, of.SMALL))
BOOKS_TO_BUY = NounClass((BOOK, COOKBOOK, DICTIONARY), (of.NEW, of.INTERESTING, of.GOOD))
HUNGRY_PETS = NounClass(PETS.nouns, (of.HUNGRY, of.SMALL, of.YOUNG, of.OLD), of.FUR)
FORGETTABLE = NounClass((ANSWER, WORD, RULE), ())
PIECES = NounClass((APPLE, PEAR, BANANA, ORANGE), (of.FRESH, of.BIG, of.SMALL))
PEELABLE = NounClass((POTATO, CARROT, ONION, APPLE), ())
WASHABLE_FOOD = NounClass((POTATO, TOMATO, CARROT, CHERRY, STRAWBERRY, APPLE), (of.FRESH,))
POLISHABLE_SHOES = NounClass((SHOE, BOOT), (of.BLACK, of.BROWN, of.DIRTY, of.OLD))
CONTAINERS = NounClass((SUITCASE, BAG, UMBRELLA), (of.BIG, of.NEW, of.OLD))
MOTIFS = NounClass((PICTURE, TREE, FLOWER, HOUSE, HORSE, CAT, SHIP), (of.BEAUTIFUL, of.SMALL, of.BIG))
LOADS = NounClass((SUITCASE, BAG, CHAIR, TABLE, BASKET), (of.HEAVY, of.BIG, of.SMALL))
BOOKS = NounClass((BOOK, COOKBOOK, DICTIONARY, MAGAZINE, NEWSPAPER), (of.NEW, of.INTERESTING, of.GOOD, of.CHEAP))
HABITUAL_READING = NounClass((BOOK, NEWSPAPER, MAGAZINE, STORY, POEM), (of.OLD, of.INTERESTING))
REPAIRABLE_FURNITURE = NounClass((TABLE, CHAIR, BED, LAMP, CUPBOARD), (of.OLD, of.SMALL, of.BIG))
WASHABLE_VEHICLES = NounClass((CAR, BICYCLE, MOTORBIKE), (of.DIRTY, of.NEW, of.OLD))
PUBLIC_TRANSPORT = NounClass((BUS, TRAIN, TRAM, PLANE), ())
PLACES = NounClass((RESTAURANT, CAFE, HOTEL, CINEMA, LIBRARY), (of.SMALL, of.QUIET, of.LOUD, of.MODERN, of.BEAUTIFUL))
STREETS = NounClass((STREET,), (of.LONG, of.NARROW, of.QUIET, of.LOUD))
BRIDGES = NounClass((BRIDGE,), (of.LONG, of.OLD, of.BEAUTIFUL))
TALL_THINGS = NounClass((TREE, TOWER, MOUNTAIN), (of.TALL_AND_HIGH, of.BEAUTIFUL))
SWEETS = NounClass((CAKE, PIZZA, SOUP, *FRUIT.nouns), (of.DELICIOUS, of.BIG))
LYING_THINGS = NounClass(
    (BOOK, NEWSPAPER, LETTER, KEY, WALLET, PASSPORT, PENCIL, BALL, DOLL, UMBRELLA), (of.NEW, of.OLD)
)
STANDING_THINGS = NounClass((LAMP, SUITCASE, BAG, BASKET), (of.BIG, of.SMALL, of.OLD, of.NEW))
SHOES_AS_PAIRS = NounClass((SHOE, BOOT, GLOVE, SOCK), SHOES.adjectives, SHOES.colours)
HEADGEAR = NounClass(
    tuple(noun for noun in CLOTHES.nouns if noun.english in ("hat", "cap")), (of.NEW, of.OLD, of.WARM), of.COLOURS
)
GARMENTS = NounClass(
    tuple(noun for noun in CLOTHES.nouns if noun.english not in ("hat", "cap", "scarf")), CLOTHES.adjectives, of.COLOURS
)
DISHES_TO_WASH = NounClass((*TABLEWARE.nouns, *CUTLERY.nouns), (of.DIRTY, of.SMALL, of.BIG))
CROCKERY = NounClass(TABLEWARE.nouns, (of.BIG, of.SMALL, of.NEW))
WRITTEN_SENTENCES = NounClass((SENTENCE,), (of.SHORT, of.LONG))
WARM_CLOTHES = NounClass(
    tuple(noun for noun in CLOTHES.nouns if noun.english in ("coat", "jacket", "jumper")), (of.WARM,)
)
WARM_HEADGEAR = NounClass(HEADGEAR.nouns, (of.WARM,))
WORKPLACES = NounClass(
    (OFFICE, RESTAURANT, HOTEL, HOSPITAL, LIBRARY, SUPERMARKET, THEATRE), (of.BIG, of.SMALL, of.MODERN)
)
FLOWERS = NounClass((FLOWER, ROSE), (of.BEAUTIFUL, of.RED, of.WHITE))
STORIES = NounClass((STORY,), (of.FUNNY, of.SAD, of.LONG, of.SHORT, of.INTERESTING))
VERSES = NounClass((STORY, POEM), (of.FUNNY, of.LONG, of.SHORT))


def all_nouns() -> tuple[Noun, ...]:
    """Every noun once, in the order of first mention."""
    found: dict[Noun, None] = {}
    for value in globals().values():
        nouns = (value,) if isinstance(value, Noun) else value.nouns if isinstance(value, NounClass) else ()
        found.update(dict.fromkeys(nouns))
    return tuple(found)
