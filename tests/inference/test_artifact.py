"""An artifact is whole, or is refused with the file that is not and a cure."""

import json
import os
from pathlib import Path

import pytest

from septuagint.data.files import write_manifest_file
from septuagint.errors import ArtifactError
from septuagint.inference.artifact import CURE, MANIFEST, Artifact, is_artifact, read_manifest
from tests.inference.conftest import change_manifest, open_translator

FILES = [
    "model/model.bin",
    "model/config.json",
    "model/shared_vocabulary.json",
    "sentencepiece.model",
    "metadata.json",
    "README.md",
    MANIFEST,
]


def refused(folder: Path) -> str:
    with pytest.raises(ArtifactError) as caught:
        Artifact(folder)
    return str(caught.value)


def remove(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"0")


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def make_a_folder_of_it(path: Path) -> None:
    path.unlink()
    path.mkdir()


def test_the_list_of_files_is_whole(artifact_folder):
    found = {str(path.relative_to(artifact_folder)) for path in artifact_folder.rglob("*") if path.is_file()}
    assert found == set(FILES)
    assert Artifact(artifact_folder).manifest.files.keys() == found - {MANIFEST}


@pytest.mark.parametrize("damage", [remove, truncate, empty, append, flip_a_bit, make_a_folder_of_it])
@pytest.mark.parametrize("name", FILES)
def test_damage_of_any_file_is_told_with_its_name_and_a_cure(own_artifact, name, damage):
    damage(own_artifact / name)
    message = refused(own_artifact)
    assert message.startswith(str(own_artifact))
    assert name in message
    assert message.endswith(CURE)


def test_no_bit_of_the_manifest_can_flip_unseen(own_artifact):
    path = own_artifact / MANIFEST
    whole = path.read_bytes()
    value = json.loads(whole)
    for place in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            same = json.loads(changed) == value  # white space between values may change: it means nothing
        except ValueError:
            same = False
        if not same:
            assert str(path) in refused(own_artifact)


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[]", b"5", b'"x"', b"{}", b"\xff\xfe", b"[" * 100_000])
def test_a_manifest_that_is_none_is_refused(own_artifact, content):
    (own_artifact / MANIFEST).write_bytes(content)
    message = refused(own_artifact)
    assert str(own_artifact / MANIFEST) in message
    assert message.endswith(CURE)


@pytest.mark.parametrize(
    "fields",
    [
        {"format": "somebody-elses-artifact"},
        {"kind": "onnx"},
        {"files": []},
        {"files": {"README.md": "abc"}},
        {"decode": None},
        {"num_parameters": "many"},
        {"version": "1st"},
        {"surprise": 1},
    ],
    ids=str,
)
def test_a_manifest_with_other_content_is_refused_though_it_is_sealed(own_artifact, fields):
    change_manifest(own_artifact, **fields)
    message = refused(own_artifact)
    assert f"{own_artifact / MANIFEST}: not the manifest of a Septuagint artifact" in message
    assert message.endswith(CURE)


def test_a_sealed_manifest_of_another_format_is_refused(own_artifact):
    write_manifest_file(own_artifact / MANIFEST, {"format": "septuagint-data", "version": 1})
    assert "not the manifest of a Septuagint artifact" in refused(own_artifact)


def test_a_newer_format_asks_for_a_newer_program_whatever_else_it_holds(own_artifact):
    change_manifest(own_artifact, version=2, tensors=["new"])
    message = refused(own_artifact)
    assert f"{own_artifact}: its format is version 2" in message
    assert message.endswith("update Septuagint")


def test_an_unknown_normaliser_asks_for_a_newer_program(own_artifact):
    change_manifest(own_artifact, normaliser="septuagint-9")
    message = refused(own_artifact)
    assert str(own_artifact) in message
    assert "'septuagint-9'" in message
    assert message.endswith("update Septuagint")


def test_a_folder_without_a_manifest_is_no_artifact(tmp_path):
    assert not is_artifact(tmp_path)
    assert f"{tmp_path}: not an artifact (artifact.json is missing)" in refused(tmp_path)
    assert "not an artifact" in refused(tmp_path / "nowhere")


def test_files_that_others_put_there_do_no_harm(own_artifact):
    (own_artifact / ".DS_Store").write_bytes(b"0")
    (own_artifact / "model" / "notes.txt").write_text("mine")
    (own_artifact / "more").mkdir()
    with open_translator(own_artifact) as translator:
        (found,) = translator.translate([["red dog"]])
    assert found.text


def test_it_says_what_it_was_made_of(artifact_folder, run_folder):
    manifest = read_manifest(artifact_folder)
    assert (manifest.kind, manifest.quantization, manifest.preset) == ("ctranslate2", "float32", "modern")
    assert (manifest.source_language, manifest.target_language) == ("en", "de")
    assert (manifest.name, manifest.origin.run) == (run_folder.name, run_folder.name)
    assert manifest.vocabulary_size == Artifact(artifact_folder).vocabulary.size


def test_it_can_be_moved_and_read_by_anybody(own_artifact):
    moved = own_artifact.rename(own_artifact.with_name("an other näme"))
    assert Artifact(moved).manifest == read_manifest(moved)
    for path in [moved, *moved.rglob("*")]:
        assert path.stat().st_mode & 0o044 == 0o044, path
