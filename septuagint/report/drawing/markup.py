"""Text of strangers as markup: corpora, host names, paths and messages are never taken for tags."""

import re
from html import escape

from septuagint.telemetry.events import escape_controls

# No XML may hold them, escaped or not.
_NO_CHARACTERS = re.compile("[\ufffe\uffff]")


def text_of(value: str) -> str:
    """Text that may stand between tags or in an attribute. No control character is left in it."""
    return escape(_NO_CHARACTERS.sub("\ufffd", escape_controls(value)), quote=True)
