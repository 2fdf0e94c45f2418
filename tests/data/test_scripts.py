"""Writing systems: text in a language's own script is never foreign to it."""

import pytest

from septuagint.data.scripts import UNSPACED, foreign_letter, is_plain_latin, length_in_letters, script_share

SENTENCES = {
    "am": "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው",
    "ar": "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق",
    "be": "Усе людзі нараджаюцца свабоднымі і роўнымі ў сваёй годнасці",
    "bn": "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে",
    "bo": "འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས",
    "cs": "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια",
    "fa": "تمام افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم برابرند",
    "gu": "પ્રતિષ્ઠા અને અધિકારોની દૃષ્ટિએ સર્વ માનવો જન્મથી સ્વતંત્ર",
    "he": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता",
    "hy": "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ",
    "ja": "すべての人間は、生まれながらにして自由であり、コンピューターを使う",
    "ka": "ყველა ადამიანი იბადება თავისუფალი და თანასწორი",
    "km": "មនុស្សទាំងអស់កើតមកមានសេរីភាព",
    "kn": "ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಜನಿಸಿದ್ದಾರೆ",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다",
    "lo": "ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ",
    "ml": "മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും അന്തസ്സോടും",
    "my": "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့်",
    "pa": "ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ ਆਪਣੀ ਮਹਿਮਾ",
    "ru": "Все люди рождаются свободными и равными в своём достоинстве",
    "si": "සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත",
    "sr": "Сва људска бића рађају се слободна",
    "ta": "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்",
    "te": "ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును",
    "th": "มนุษย์ทั้งปวงเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "uk": "Всі люди народжуються вільними і рівними у своїй гідності",
    "vi": "Tất cả mọi người sinh ra đều được tự do và bình đẳng",
    "zh": "人人生而自由,在尊严和权利上一律平等",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_every_language_is_at_home_in_its_own_script(language):
    foreign = foreign_letter(language)
    assert foreign is not None
    assert script_share(SENTENCES[language], foreign) > 0.95


@pytest.mark.parametrize(("language", "other"), [("en", "ru"), ("ru", "de"), ("ja", "ko"), ("ar", "he"), ("hi", "ta")])
def test_another_script_is_foreign(language, other):
    foreign = foreign_letter(language)
    assert foreign is not None
    assert script_share(SENTENCES[other], foreign) == 0


def test_text_without_letters_belongs_to_every_script():
    for language in SENTENCES:
        foreign = foreign_letter(language)
        assert foreign is not None
        assert script_share("12:30 – 100 % (?!)", foreign) == 1


def test_a_subtag_decides_the_script():
    latin, cyrillic = foreign_letter("uz-Latn"), foreign_letter("uz_Cyrl")
    assert latin is not None and cyrillic is not None
    assert script_share("ўзбек тили", latin) == 0
    assert script_share("ўзбек тили", cyrillic) == 1
    assert foreign_letter("xx") is None


def test_dense_scripts_count_for_what_they_carry():
    assert length_in_letters("人人生而自由") == 18
    assert length_in_letters("모든") == 4
    assert length_in_letters("Würde") == 5
    assert length_in_letters("") == 0


def test_plain_latin_is_latin_1():
    assert is_plain_latin("Würde ÿ ×")
    assert not is_plain_latin("Dvořák")
    assert not is_plain_latin("€")


@pytest.mark.parametrize("language", ["ja", "zh", "th", "lo", "km", "my", "bo"])
def test_scripts_without_spaces_are_known(language):
    assert UNSPACED.search(SENTENCES[language])


def test_scripts_with_spaces_are_not_taken_for_such_without():
    for language in ("ar", "de", "hi", "ko", "ru", "vi"):
        assert not UNSPACED.search(SENTENCES[language])
