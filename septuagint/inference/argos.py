"""An artifact as a package of Argos Translate, which LibreTranslate serves: a zip with one folder in it.

Artifacts are laid out as such packages are, so the folder is the artifact itself, with what finds the ends of sentences
beside it. Argos has rules of its own: a length penalty of 0.2, at most 256 pieces for a sentence, and no normaliser.
"""

import json
import re
import zipfile
from pathlib import Path

from septuagint.inference.argos_sentences import sentence_model
from septuagint.inference.artifact import Manifest

METADATA = "metadata.json"
_VERSION = "1.0"
_SENTENCES = "minisbd/sentences.onnx"
# Where LibreTranslate's codes are not the first part of ours.
_CODES = {"pt-br": "pb", "zh-hant": "zt", "zh-tw": "zt", "zh-hk": "zt"}
_NAMES = {
    "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "bs": "Bosnian",
    "ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "ga": "Irish", "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese",
    "ka": "Georgian", "kk": "Kazakh", "ko": "Korean", "ky": "Kyrgyz", "lb": "Luxembourgish", "lt": "Lithuanian",
    "lv": "Latvian", "mk": "Macedonian", "ms": "Malay", "mt": "Maltese", "nb": "Norwegian Bokmål", "nl": "Dutch",
    "nn": "Norwegian Nynorsk", "no": "Norwegian", "pb": "Portuguese (Brazil)", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian",
    "sv": "Swedish", "sw": "Swahili", "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "uk": "Ukrainian",
    "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "zh": "Chinese", "zt": "Chinese (traditional)",
}  # fmt: skip


def write_metadata(folder: Path, source_language: str, target_language: str) -> None:
    """What Argos wants to know of a package. In ASCII: it is opened without an encoding."""
    source, target = _code(source_language), _code(target_language)
    content = {
        "package_version": _VERSION,
        "argos_version": "1.11",
        "from_code": source,
        "from_name": _NAMES.get(source, source_language),
        "to_code": target,
        "to_name": _NAMES.get(target, target_language),
    }
    (folder / METADATA).write_text(json.dumps(content, indent=1) + "\n", encoding="ascii")


def argos_name(manifest: Manifest) -> str:
    """The file's name, as Argos names its own."""
    return f"{_folder_name(manifest)}.argosmodel"


def write_argos(artifact: Path, target: Path, manifest: Manifest) -> None:
    """Packs an artifact folder."""
    folder = _folder_name(manifest)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in artifact.rglob("*") if path.is_file()):
            archive.write(path, f"{folder}/{path.relative_to(artifact).as_posix()}")
        sentences = zipfile.ZipInfo(f"{folder}/{_SENTENCES}")
        sentences.external_attr = 0o644 << 16  # a server may run as another user than the one who unpacks
        archive.writestr(sentences, sentence_model(), zipfile.ZIP_DEFLATED)


def _folder_name(manifest: Manifest) -> str:
    languages = f"{_code(manifest.source_language)}_{_code(manifest.target_language)}"
    return f"translate-{languages}-{_VERSION.replace('.', '_')}"


def _code(language: str) -> str:
    return _CODES.get(language.lower().replace("_", "-"), re.split("[-_]", language.lower())[0])
