"""Writing systems: which letters a language is written with, and how many letters a character is worth."""

import re

# Ranges of letters. Rare historic blocks are left out: they only matter for text in those scripts.
SCRIPTS = {
    "Latin": "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1d00-\u1d25\u1e00-\u1eff\u2c60-\u2c7f"
    "\ua722-\ua787\uab30-\uab64\uff21-\uff3a\uff41-\uff5a",
    "Greek": "\u0370-\u0373\u0376-\u037d\u037f-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f\u1c80-\u1c88\u2de0-\u2dff\ua640-\ua69f",
    "Armenian": "\u0531-\u0587",
    "Hebrew": "\u05d0-\u05f2\ufb1d-\ufb4f",
    "Arabic": "\u0620-\u065f\u066e-\u06d3\u06d5-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    "Devanagari": "\u0900-\u0963\u0971-\u097f\ua8e0-\ua8ff",
    "Bengali": "\u0980-\u09e3\u09f0-\u09ff",
    "Gurmukhi": "\u0a01-\u0a65\u0a70-\u0a7f",
    "Gujarati": "\u0a81-\u0ae3\u0af9-\u0aff",
    "Odia": "\u0b01-\u0b65\u0b70-\u0b7f",
    "Tamil": "\u0b82-\u0be5",
    "Telugu": "\u0c00-\u0c65",
    "Kannada": "\u0c80-\u0ce5",
    "Malayalam": "\u0d00-\u0d65\u0d7a-\u0d7f",
    "Sinhala": "\u0d81-\u0de5",
    "Thai": "\u0e01-\u0e3a\u0e40-\u0e4e",
    "Lao": "\u0e81-\u0ecd\u0edc-\u0edf",
    "Tibetan": "\u0f40-\u0fbc",
    "Myanmar": "\u1000-\u103f\u1050-\u109d\uaa60-\uaa7f",
    "Georgian": "\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f",
    "Ethiopic": "\u1200-\u137c\u1380-\u1399\u2d80-\u2dde",
    "Khmer": "\u1780-\u17d3",
    "Mongolian": "\u1820-\u18aa",
    "Hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3",
    "Kana": "\u3041-\u3096\u309d-\u309f\u30a1-\u30ff\u31f0-\u31ff\uff66-\uff9d",
    "Han": "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
}

_LANGUAGES_OF = {
    "Latin": "af ast az bs ca ceb co cs cy da de en eo es et eu fi fil fo fr fy ga gd gl gn gsw ha haw hr ht hu id ig "
    "is it jv kl ku la lb ln lt lv mg mi ms mt nb nds nl nn no ny oc om pl pt qu ro rw sk sl sm sn so sq ss st su sv "
    "sw tk tl tn to tr ts uz vi vo wa wo xh yo zu",
    "Greek": "el",
    "Cyrillic": "ab ba be bg ce cv kk ky mk os ru sah tg tt uk",
    "Cyrillic Latin": "sr",
    "Cyrillic Mongolian": "mn",
    "Armenian": "hy",
    "Hebrew": "he yi",
    "Arabic": "ar arz ckb fa ps ug ur",
    "Arabic Devanagari": "sd ks",
    "Devanagari": "bho hi mai mr ne new sa",
    "Bengali": "as bn",
    "Gurmukhi Arabic": "pa",
    "Gujarati": "gu",
    "Odia": "or",
    "Tamil": "ta",
    "Telugu": "te",
    "Kannada": "kn",
    "Malayalam": "ml",
    "Sinhala": "si",
    "Thai": "th",
    "Lao": "lo",
    "Tibetan": "bo dz",
    "Myanmar": "my shn",
    "Georgian": "ka",
    "Ethiopic": "am ti",
    "Khmer": "km",
    "Hangul Han": "ko",
    "Kana Han": "ja",
    "Han": "zh yue wuu cmn lzh",
}
_SCRIPTS_OF = {code: scripts for scripts, codes in _LANGUAGES_OF.items() for code in codes.split()}


def _any_of(*names: str) -> str:
    return "".join(SCRIPTS[name] for name in names)


# Scripts written without spaces between words: a "word" there is a whole clause.
_UNSPACED_SCRIPTS = ("Kana", "Han", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan")
UNSPACED = re.compile(f"[{_any_of(*_UNSPACED_SCRIPTS)}]")

# A Han character carries about as much as three Latin letters, a kana or a Hangul syllable as much as two.
_WORTH_THREE = re.compile(f"[{_any_of('Han')}]")
_WORTH_TWO = re.compile(f"[{_any_of('Kana')}\uac00-\ud7a3]")
_DENSE = re.compile(f"[{_any_of('Kana', 'Han')}\uac00-\ud7a3]")

_LETTER = re.compile(r"[^\W\d_]")
_SUBTAGS = {"Latn": "Latin", "Cyrl": "Cyrillic", "Arab": "Arabic", "Deva": "Devanagari", "Hans": "Han", "Hant": "Han"}


def foreign_letter(language: str) -> re.Pattern[str] | None:
    """Matches a letter that the language is not written with; None for a language that is not in our table."""
    scripts = _scripts_of(language)
    return re.compile(rf"[^\W\d_{_any_of(*scripts)}]") if scripts else None


def has_spaces(language: str) -> bool:
    """Whether a language puts spaces between words, so that words can be counted. Yes for those we do not know."""
    return not set(_scripts_of(language)) & set(_UNSPACED_SCRIPTS) or language.startswith("ko")


def _scripts_of(language: str) -> list[str]:
    code, *subtags = re.split("[-_]", language)
    named = [_SUBTAGS[tag.title()] for tag in subtags if tag.title() in _SUBTAGS]
    return (named[0] if named else _SCRIPTS_OF.get(code, "")).split()


def is_plain_latin(text: str) -> bool:
    """Whether all characters are of Western Europe (Latin-1): the quick answer for most lines of most corpora."""
    if text.isascii():
        return True
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def script_share(text: str, foreign: re.Pattern[str]) -> float:
    """Share of a text's letters that are not foreign; 1 where there are no letters at all."""
    found = foreign.findall(text)
    if not found:
        return 1.0
    # By what they carry: three Latin names in a Japanese sentence may well be half of its characters.
    return 1 - length_in_letters("".join(found)) / length_in_letters("".join(_LETTER.findall(text)))


def length_in_letters(text: str) -> int:
    """Characters, with those of dense scripts counted for what they carry, so that lengths compare across scripts."""
    if is_plain_latin(text) or not _DENSE.search(text):
        return len(text)
    return len(text) + 2 * len(_WORTH_THREE.findall(text)) + len(_WORTH_TWO.findall(text))
