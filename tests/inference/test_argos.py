"""The package for Argos Translate: as its own library installs, splits and translates with it."""

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import sentencepiece

from septuagint.inference.argos import argos_name, write_argos, write_metadata
from septuagint.inference.argos_sentences import sentence_model
from septuagint.inference.artifact import Artifact, DecodeSettings, Manifest, Origin
from septuagint.inference.export import export
from septuagint.progress import ProgressReport
from tests.environments import Environment
from tests.training import conftest
from tests.training.conftest import Tiny

prepared = conftest.prepared
tiny = conftest.tiny
one_thread = conftest.one_thread

# LibreTranslate 1.9.6 stands on this fork; the module is called `argostranslate`, too.
LIBRARY = ("argos-translate-lt==1.12.1", "minisbd==0.9.5")
# What the library passes on, whatever the package says.
ARGOS = {
    "replace_unknowns": True,
    "max_batch_size": 32,
    "batch_type": "tokens",
    "beam_size": 4,
    "num_hypotheses": 1,
    "length_penalty": 0.2,
}
PROGRAM = """
import json, pathlib, sys
import argostranslate.package, argostranslate.translate
package, texts, tricky = json.load(sys.stdin)
argostranslate.package.install_from_path(pathlib.Path(package))
(installed,) = argostranslate.package.get_installed_packages()
translation = argostranslate.translate.get_translation_from_codes("en", "de")
print(json.dumps({
    "names": [installed.from_name, installed.to_name, installed.package_version],
    "card": installed.get_readme(),
    "translations": [argostranslate.translate.translate(text, "en", "de") for text in texts],
    "sentences": [translation.underlying.sentencizer.split_sentences(text) for text in tricky],
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
}))
"""
SENTENCES = [
    "one red dog",
    "two blue cat bird .",
    "Zoë has 3 ☃ & \u201cfour\u201d trees.",
    "sun",
    "four tree house sun one",
]
SPLIT = {
    "The cat sat. The dog ran!": ["The cat sat.", "The dog ran!"],
    "Then J. Smith came. He said \u201cNo.\u201d OK": ["Then J. Smith came.", "He said \u201cNo.\u201d", "OK"],
    "e.g. this, and so on… it goes on? Äh.": ["e.g. this, and so on… it goes on?", "Äh."],
    "今日は。「はい。」そう！": ["今日は。", "「はい。」", "そう！"],
    "J. Smith came. He left.": ["J. Smith came.", "He left."],
    "no stop at all": ["no stop at all"],
}  # fmt: skip


def manifest_of(source_language: str, target_language: str) -> Manifest:
    """An artifact's, with nothing in it."""
    return Manifest(
        kind="ctranslate2",
        name="news",
        source_language=source_language,
        target_language=target_language,
        normaliser="nfc",
        quantization="int8",
        preset="base",
        num_parameters=1,
        vocabulary_size=1,
        decode=DecodeSettings(max_length_ratio=2, max_length_extra=10, max_length=512, max_source_pieces=100),
        origin=Origin(run="news", checkpoint="step-1", step=1, weights_sha256="", septuagint_version="0"),
        checks={},
        files={},
    )


def metadata_of(folder: Path, source_language: str, target_language: str) -> dict[str, Any]:
    write_metadata(folder, source_language, target_language)
    found: dict[str, Any] = json.loads((folder / "metadata.json").read_text(encoding="ascii"))
    return found


def export_argos(run: Path, folder: Path) -> Path:
    """The package of a run's best checkpoint."""
    export(run, folder, format="argos", report=ProgressReport(is_quiet=True))
    (package,) = folder.glob("*.argosmodel")
    return package


def translate_directly(package_folder: Path, sentences: list[str]) -> str:
    """What CTranslate2 makes of sentences with the arguments of the library."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(package_folder / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(package_folder / "model"))
    found = translator.translate_batch([processor.encode(line, out_type=str) for line in sentences], **ARGOS)
    text: str = processor.decode_pieces([piece for result in found for piece in result.hypotheses[0]])
    return text.removeprefix(" ")


def offline(environment: Environment, folder: Path) -> list[str]:
    """A launcher that takes the network away, where we may."""
    launcher = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None:
        return []
    is_possible = environment.run("python", "-c", "", cwd=folder, launcher=launcher).returncode == 0
    return launcher if is_possible else []


def own_folders(folder: Path) -> Mapping[str, str]:
    """Where the library keeps its files: it makes these folders when it is imported."""
    folders = {f"XDG_{name}_HOME": str(folder / name) for name in ("DATA", "CONFIG", "CACHE")}
    return {**folders, "ARGOS_PACKAGES_DIR": str(folder / "packages"), "HOME": str(folder)}


@pytest.mark.parametrize(
    ("language", "code", "name"),
    [
        ("en", "en", "English"),
        ("de-AT", "de", "German"),
        ("pt_BR", "pb", "Portuguese (Brazil)"),
        ("pt", "pt", "Portuguese"),
        ("zh-Hant", "zt", "Chinese (traditional)"),
        ("zh-TW", "zt", "Chinese (traditional)"),
        ("zh-Hans", "zh", "Chinese"),
        ("nb", "nb", "Norwegian Bokmål"),
        ("tlh", "tlh", "tlh"),
    ],
)
def test_a_language_has_the_code_and_name_that_libretranslate_knows_it_by(
    tmp_path: Path, language: str, code: str, name: str
):
    found = metadata_of(tmp_path, language, "fr")
    assert (found["from_code"], found["from_name"]) == (code, name)
    assert (found["to_code"], found["to_name"]) == ("fr", "French")
    assert metadata_of(tmp_path, "fr", language)["to_code"] == code
    assert argos_name(manifest_of(language, "fr")) == f"translate-{code}_fr-1_0.argosmodel"


def test_a_package_is_one_folder_with_every_file_and_the_sentence_model(tmp_path: Path):
    artifact = tmp_path / "artifact"
    files = {"metadata.json": b"{}", "model/model.bin": b"\0" * 1000, "README.md": "Ümläute".encode()}
    for name, content in files.items():
        (artifact / name).parent.mkdir(parents=True, exist_ok=True)
        (artifact / name).write_bytes(content)
    write_argos(artifact, tmp_path / "package", manifest_of("en", "de"))
    with zipfile.ZipFile(tmp_path / "package") as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
        entries = archive.infolist()
    files["minisbd/sentences.onnx"] = sentence_model()
    assert found == {f"translate-en_de-1_0/{name}": content for name, content in files.items()}
    assert [entry.compress_type for entry in entries] == [zipfile.ZIP_DEFLATED] * len(entries)
    assert all((entry.external_attr >> 16) & 0o444 == 0o444 for entry in entries)  # whoever unpacks it, all may read


def test_an_exported_package_holds_an_artifact(tiny: Tiny, tmp_path: Path):
    tiny.train("training.max_steps=1", "training.validate_every=1")
    package = export_argos(tiny.run_path("run"), tmp_path / "package")
    assert package.name == "translate-en_de-1_0.argosmodel"
    with zipfile.ZipFile(package) as archive:
        archive.extractall(tmp_path / "packages")
    assert Artifact(tmp_path / "packages" / package.stem).manifest.kind == "ctranslate2"
    assert Artifact(package.parent).manifest.kind == "argos"


@pytest.mark.slow
def test_argos_translate_installs_a_package_and_translates_as_ctranslate2_does(tiny: Tiny, tmp_path: Path):
    tiny.train("training.max_steps=150", "training.validate_every=50")
    package = export_argos(tiny.run_path("run"), tmp_path / "a package")
    environment = Environment(tmp_path / "environment", *LIBRARY)
    paragraph = "one red dog. Four tree house sun! Two blue cat?"
    texts = [*SENTENCES, paragraph, f"{paragraph}\n\nsun", ""]
    result = environment.run(
        "python",
        "-c",
        PROGRAM,
        cwd=tmp_path,
        input=json.dumps([str(package), texts, list(SPLIT)]),
        env=own_folders(tmp_path / "home"),
        launcher=offline(environment, tmp_path),
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    installed = tmp_path / "home" / "packages" / package.stem
    assert found["names"] == ["English", "German", "1.0"]
    assert found["card"] == (installed / "README.md").read_text(encoding="utf-8")
    assert not {"torch", "stanza", "spacy"} & set(found["modules"])

    of_sentences = [translate_directly(installed, [sentence]) for sentence in SENTENCES]
    of_paragraph = translate_directly(installed, ["one red dog.", "Four tree house sun!", "Two blue cat?"])
    assert len(set(of_sentences)) == len(SENTENCES)
    assert found["translations"] == [*of_sentences, of_paragraph, f"{of_paragraph}\n\n{of_sentences[3]}", ""]
    assert dict(zip(SPLIT, found["sentences"], strict=True)) == SPLIT
