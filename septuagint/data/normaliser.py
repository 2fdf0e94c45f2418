"""The text normaliser: what every sentence passes on its way into training, and later into translation.

It travels with the model by its name: a change of behaviour is a new name. What it does:
canonical composition (NFC); byte order marks, soft hyphens, direction marks, zero-width and control characters removed;
every run of white space, with tabs, carriage returns, U+2028 and no-break spaces, becomes one space; none at the ends.
SentencePiece's own sign for a space, U+2581, is one. The joiners U+200C and U+200D stay where a script or an emoji
needs them. Nothing else is changed: m² stays m².
"""

import re
import unicodedata

NORMALISER = "septuagint-1"

# White space by Python's own rule is handled by split(); these are neither space nor visible.
INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # control characters that are not white space
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "]"
)
# Joiners mean something after Arabic, Indic and other scripts, and inside emoji; elsewhere they are debris.
STRAY_JOINER = re.compile(
    "(?<![\u0600-\u109f\u1700-\u18af\u1900-\u1c7f\u200c\u200d\u2190-\u2bff\ua800-\uabff\ufb50-\ufdff\ufe0f\ufe70-\ufefc\U00010a00-\U00011fff"
    "\U0001f000-\U0001faff])[\u200c\u200d]+"
)


def normalise(text: str) -> str:
    """One line of text without what nobody sees. Applying it twice changes nothing more."""
    if "\u2581" in text:
        text = text.replace("\u2581", " ")
    if not text.isprintable() or "  " in text:
        # isprintable() is false for every control, format and space character but the plain space.
        text = unicodedata.normalize("NFC", INVISIBLE.sub("", text))
        # Where a joiner goes, marks may change places, and the next joiner stands after another one.
        while (without := unicodedata.normalize("NFC", STRAY_JOINER.sub("", text))) != text:
            text = without
        text = " ".join(text.split())
    elif text[:1] == " " or text[-1:] == " ":
        text = text.strip(" ")
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", text)
