"""German as a grammar book has it: nouns with article, plural and dative plural, endings of articles and adjectives.

The endings were written by hand; the nouns were listed once and then proof-read word by word, so that a slip in the
lexicon shows. The agreement tests read generated sentences with these tables and nothing else.
"""

from dataclasses import dataclass
from functools import cache

NOUNS = """
die Mutter, Mütter, Müttern; der Vater, Väter, Vätern; die Schwester, Schwestern, Schwestern; der Bruder, Brüder,
Brüdern; die Tochter, Töchter, Töchtern; der Sohn, Söhne, Söhnen; die Tante, Tanten, Tanten; der Onkel, Onkel,
Onkeln; der Cousin, Cousins, Cousins; der Freund, Freunde, Freunden; der Nachbar, Nachbarn, Nachbarn (weak); der
Kollege, Kollegen, Kollegen (weak); Eltern (plural); Großeltern (plural); das Kind, Kinder, Kindern; das Mädchen,
Mädchen, Mädchen; der Mann, Männer, Männern; die Frau, Frauen, Frauen; der Junge, Jungen, Jungen (weak); die
Großmutter, Großmütter, Großmüttern; der Großvater, Großväter, Großvätern; die Lehrerin, Lehrerinnen, Lehrerinnen;
die Ärztin, Ärztinnen, Ärztinnen; die Sängerin, Sängerinnen, Sängerinnen; die Zahnärztin, Zahnärztinnen,
Zahnärztinnen; die Krankenschwester, Krankenschwestern, Krankenschwestern; der Bäcker, Bäcker, Bäckern; der Bauer,
Bauern, Bauern (weak); der Polizist, Polizisten, Polizisten (weak); der Student, Studenten, Studenten (weak); der
Tourist, Touristen, Touristen (weak); der Kellner, Kellner, Kellnern; der Gärtner, Gärtner, Gärtnern; der Gast,
Gäste, Gästen; der Hund, Hunde, Hunden; die Katze, Katzen, Katzen; das Pferd, Pferde, Pferden; der Vogel, Vögel,
Vögeln; die Maus, Mäuse, Mäusen; das Kaninchen, Kaninchen, Kaninchen; die Kuh, Kühe, Kühen; das Schwein, Schweine,
Schweinen; die Ente, Enten, Enten; die Ziege, Ziegen, Ziegen; der Apfel, Äpfel, Äpfeln; die Birne, Birnen, Birnen;
die Banane, Bananen, Bananen; die Orange, Orangen, Orangen; die Kirsche, Kirschen, Kirschen; die Erdbeere,
Erdbeeren, Erdbeeren; die Kartoffel, Kartoffeln, Kartoffeln; die Tomate, Tomaten, Tomaten; die Karotte, Karotten,
Karotten; die Zwiebel, Zwiebeln, Zwiebeln; das Ei, Eier, Eiern; der Kuchen, Kuchen, Kuchen; die Pizza, Pizzas,
Pizzas; das Brötchen, Brötchen, Brötchen; der Keks, Kekse, Keksen; die Suppe, Suppen, Suppen; der Salat, Salate,
Salaten; das Brot; der Zucker; die Milch; der Käse; das Fleisch; der Fisch; der Reis; die Schokolade; die Butter;
der Tee; der Kaffee; das Wasser; der Saft; der Apfelsaft; die Limonade; der Orangensaft; das Hemd, Hemden, Hemden;
der Mantel, Mäntel, Mänteln; die Jacke, Jacken, Jacken; der Hut, Hüte, Hüten; der Schal, Schals, Schals; der
Pullover, Pullover, Pullovern; die Mütze, Mützen, Mützen; der Regenmantel, Regenmäntel, Regenmänteln; das Kleid,
Kleider, Kleidern; der Rock, Röcke, Röcken; die Bluse, Blusen, Blusen; der Schuh, Schuhe, Schuhen; der Stiefel,
Stiefel, Stiefeln; der Handschuh, Handschuhe, Handschuhen; die Socke, Socken, Socken; der Tisch, Tische, Tischen;
der Stuhl, Stühle, Stühlen; das Bett, Betten, Betten; das Sofa, Sofas, Sofas; der Schrank, Schränke, Schränken; das
Regal, Regale, Regalen; die Lampe, Lampen, Lampen; der Schreibtisch, Schreibtische, Schreibtischen; der Küchentisch,
Küchentische, Küchentischen; der Sessel, Sessel, Sesseln; die Wand, Wände, Wänden; das Fenster, Fenster, Fenstern;
die Tür, Türen, Türen; der Gartenstuhl, Gartenstühle, Gartenstühlen; das Bild, Bilder, Bildern; der Spiegel,
Spiegel, Spiegeln; die Uhr, Uhren, Uhren; der Kalender, Kalender, Kalendern; die Haustür, Haustüren, Haustüren; das
Tor, Tore, Toren; das Auto, Autos, Autos; das Motorrad, Motorräder, Motorrädern; das Fahrrad, Fahrräder, Fahrrädern;
das Boot, Boote, Booten; der Computer, Computer, Computern; die Kamera, Kameras, Kameras; der Kühlschrank,
Kühlschränke, Kühlschränken; die Waschmaschine, Waschmaschinen, Waschmaschinen; die Kaffeemaschine, Kaffeemaschinen,
Kaffeemaschinen; der Wecker, Wecker, Weckern; das Telefon, Telefone, Telefonen; das Radio, Radios, Radios; der
Fernseher, Fernseher, Fernsehern; das Licht, Lichter, Lichtern; die Heizung, Heizungen, Heizungen; die Flasche,
Flaschen, Flaschen; der Geldbeutel, Geldbeutel, Geldbeuteln; der Pass, Pässe, Pässen; der Korb, Körbe, Körben; der
Schlüssel, Schlüssel, Schlüsseln; der Regenschirm, Regenschirme, Regenschirmen; der Koffer, Koffer, Koffern; die
Tasche, Taschen, Taschen; die Puppe, Puppen, Puppen; der Bleistift, Bleistifte, Bleistiften; der Ball, Bälle,
Bällen; das Geschenk, Geschenke, Geschenken; der Hausschlüssel, Hausschlüssel, Hausschlüsseln; der Rucksack,
Rucksäcke, Rucksäcken; der Ring, Ringe, Ringen; der Luftballon, Luftballons, Luftballons; die Tasse, Tassen, Tassen;
der Teller, Teller, Tellern; das Glas, Gläser, Gläsern; der Löffel, Löffel, Löffeln; das Messer, Messer, Messern;
die Gabel, Gabeln, Gabeln; das Kochbuch, Kochbücher, Kochbüchern; das Wörterbuch, Wörterbücher, Wörterbüchern; die
Zeitschrift, Zeitschriften, Zeitschriften; die Zeitung, Zeitungen, Zeitungen; das Buch, Bücher, Büchern; das
Gedicht, Gedichte, Gedichten; die Geschichte, Geschichten, Geschichten; der Bericht, Berichte, Berichten; der Brief,
Briefe, Briefen; die E-Mail, E-Mails, E-Mails; die Postkarte, Postkarten, Postkarten; die Frage, Fragen, Fragen; die
Antwort, Antworten, Antworten; der Satz, Sätze, Sätzen; das Wort, Wörter, Wörtern; die Regel, Regeln, Regeln; das
Lied, Lieder, Liedern; der Film, Filme, Filmen; das Spiel, Spiele, Spielen; die Rechnung, Rechnungen, Rechnungen;
das Geld; die Zeit; der Baum, Bäume, Bäumen; die Blume, Blumen, Blumen; die Rose, Rosen, Rosen; die Küche, Küchen,
Küchen; das Schlafzimmer, Schlafzimmer, Schlafzimmern; das Wohnzimmer, Wohnzimmer, Wohnzimmern; das Badezimmer,
Badezimmer, Badezimmern; der Keller, Keller, Kellern; die Garage, Garagen, Garagen; der Garten, Gärten, Gärten; das
Büro, Büros, Büros; das Klassenzimmer, Klassenzimmer, Klassenzimmern; das Haus, Häuser, Häusern; die Wohnung,
Wohnungen, Wohnungen; das Zimmer, Zimmer, Zimmern; die Stadt, Städte, Städten; das Dorf, Dörfer, Dörfern; die
Straße, Straßen, Straßen; die Schule, Schulen, Schulen; das Kino, Kinos, Kinos; das Theater, Theater, Theatern; das
Museum, Museen, Museen; der Park, Parks, Parks; der Supermarkt, Supermärkte, Supermärkten; das Restaurant,
Restaurants, Restaurants; das Café, Cafés, Cafés; die Kirche, Kirchen, Kirchen; die Bibliothek, Bibliotheken,
Bibliotheken; das Krankenhaus, Krankenhäuser, Krankenhäusern; der Bahnhof, Bahnhöfe, Bahnhöfen; der Flughafen,
Flughäfen, Flughäfen; der Markt, Märkte, Märkten; die Bäckerei, Bäckereien, Bäckereien; die Apotheke, Apotheken,
Apotheken; die Bushaltestelle, Bushaltestellen, Bushaltestellen; das Hotel, Hotels, Hotels; das Schwimmbad,
Schwimmbäder, Schwimmbädern; die Bank, Banken, Banken; der Zoo, Zoos, Zoos; der Spielplatz, Spielplätze,
Spielplätzen; das Rathaus, Rathäuser, Rathäusern; die Brücke, Brücken, Brücken; der Turm, Türme, Türmen; der Wald,
Wälder, Wäldern; der See, Seen, Seen; der Fluss, Flüsse, Flüssen; das Meer, Meere, Meeren; der Strand, Strände,
Stränden; die Wiese, Wiesen, Wiesen; der Berg, Berge, Bergen; die Sonne, Sonnen, Sonnen; der Zug, Züge, Zügen; der
Bus, Busse, Bussen; das Flugzeug, Flugzeuge, Flugzeugen; die Straßenbahn, Straßenbahnen, Straßenbahnen; das Taxi,
Taxis, Taxis; das Schiff, Schiffe, Schiffen; das Wetter; der Geburtstag, Geburtstage, Geburtstagen; die Arbeit; das
Konzert, Konzerte, Konzerten
"""

CASES = ("nominative", "accusative", "dative", "genitive")
GENDERS = ("masculine", "feminine", "neuter", "plural")

# One row per case, one column per gender.
DEFINITE = ("der die das die", "den die das die", "dem der dem den", "des der des der")
EIN = ("ein eine ein -", "einen eine ein -", "einem einer einem -", "eines einer eines -")
KEIN = (
    "kein keine kein keine",
    "keinen keine kein keine",
    "keinem keiner keinem keinen",
    "keines keiner keines keiner",
)
DIESER = (
    "dieser diese dieses diese",
    "diesen diese dieses diese",
    "diesem dieser diesem diesen",
    "dieses dieser dieses dieser",
)
AFTER_DEFINITE = ("e e e en", "en e e en", "en en en en", "en en en en")
AFTER_EIN = ("er e es en", "en e es en", "en en en en", "en en en en")
ALONE = ("er e es e", "en e es e", "em er em en", "en er en er")


@dataclass(frozen=True)
class GermanNoun:
    singular: str
    gender: str
    plural: str
    dative_plural: str
    is_weak: bool


def read_nouns() -> list[GermanNoun]:
    nouns = []
    for entry in " ".join(NOUNS.split()).split("; "):
        is_weak, is_plural_only = entry.endswith(" (weak)"), entry.endswith(" (plural)")
        forms = entry.removesuffix(" (weak)").removesuffix(" (plural)").split(", ")
        if is_plural_only:
            nouns.append(GermanNoun("", "plural", forms[0], forms[0], False))
            continue
        article, singular = forms[0].split(" ")
        gender = {"der": "masculine", "die": "feminine", "das": "neuter"}[article]
        plural, dative_plural = forms[1:] if len(forms) == 3 else ("", "")
        nouns.append(GermanNoun(singular, gender, plural, dative_plural, is_weak))
    return nouns


def cell(table: tuple[str, ...], case: str, gender: str) -> str:
    return table[CASES.index(case)].split()[GENDERS.index(gender)]


@cache
def noun_forms() -> dict[str, set[tuple[str, str]]]:
    """Every form of every noun, with the cases and genders (or plural) that it may stand for."""
    readings: dict[str, set[tuple[str, str]]] = {}
    for noun in read_nouns():
        for case in CASES:
            if noun.singular and case != "genitive":
                form = noun.plural if noun.is_weak and case != "nominative" else noun.singular
                readings.setdefault(form, set()).add((case, noun.gender))
            if noun.plural:
                form = noun.dative_plural if case == "dative" else noun.plural
                readings.setdefault(form, set()).add((case, "plural"))
        if noun.singular:
            genitives = [noun.singular] if noun.gender == "feminine" else [noun.singular + "s", noun.singular + "es"]
            for form in [noun.plural] if noun.is_weak else genitives:
                readings.setdefault(form, set()).add(("genitive", noun.gender))
    return readings


@cache
def determiner_readings() -> dict[str, set[tuple[str, str, str]]]:
    """Every determiner form with its cases, its genders, and the kind of adjective ending that follows it."""
    readings: dict[str, set[tuple[str, str, str]]] = {}
    for case in CASES:
        for gender in GENDERS:
            readings.setdefault(cell(DEFINITE, case, gender), set()).add((case, gender, "definite"))
            readings.setdefault(cell(DIESER, case, gender), set()).add((case, gender, "definite"))
            if gender != "plural":
                readings.setdefault(cell(EIN, case, gender), set()).add((case, gender, "ein"))
            for stem in ("kein", "mein", "dein", "sein", "ihr", "unser", "Ihr"):
                form = stem + cell(KEIN, case, gender).removeprefix("kein")
                readings.setdefault(form, set()).add((case, gender, "ein"))
    return readings


def adjective_ending(kind: str, case: str, gender: str) -> str:
    return cell({"definite": AFTER_DEFINITE, "ein": AFTER_EIN, "none": ALONE}[kind], case, gender)
