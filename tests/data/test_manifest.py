"""The manifest comes back as it was written, or not at all."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septuagint.data.manifest import (
    MANIFEST,
    Corpus,
    Example,
    InputFile,
    Manifest,
    OutputFile,
    Side,
    VocabularyEntry,
    read_manifest,
    verify_file,
    write_manifest,
)
from septuagint.errors import DataError

MODEST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def make_manifest(*, name: str = "news", text: str = 'a "quoted" \\path', count: int = 3) -> Manifest:
    file = OutputFile(path=f"shards-0/train/{name}/source.ids", sha256="ab" * 32, bytes=count)
    side = Side(
        ids=file, offsets=file, text=None, tokens=count, longest=2, words=2, characters=9, bytes=9, lengths=(count, 0)
    )
    corpus = Corpus(
        name=name,
        inputs=(InputFile(path="../a.en", sha256="cd" * 32, bytes=10, lines=count),),
        lines=count,
        pairs=count,
        dropped={"too_long": 1},
        damaged_lines={"invalid_utf8": (1, 2)},
        examples=(Example(filter="too_long", line=None, source=text, target=text),),
        source=side,
        target=side,
    )
    vocabulary = VocabularyEntry(file=file, size=400, type="unigram", requested_size=400, message=text, id_type="<u2")
    return Manifest(
        fingerprint="ef" * 32,
        source_language="en",
        target_language="de",
        normaliser="septuagint-1",
        settings={"filters": {"max_length_ratio": 2.5, "numbers": False, "model": None}},
        versions={"format": "1"},
        vocabulary=vocabulary,
        train=(corpus,),
        valid=(),
        test=(corpus,),
    )


@MODEST
@given(name=TEXT, text=TEXT, count=st.integers(0, 2**63))
def test_any_manifest_comes_back_as_it_was_written(tmp_path, name, text, count):
    manifest = make_manifest(name=name, text=text, count=count)
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest


def test_the_same_manifest_gives_the_same_bytes(tmp_path):
    write_manifest(tmp_path / "a", make_manifest())
    write_manifest(tmp_path / "b", make_manifest())
    assert (tmp_path / "a" / MANIFEST).read_bytes() == (tmp_path / "b" / MANIFEST).read_bytes()


@MODEST
@given(data=st.data())
def test_any_damaged_byte_is_noticed_or_does_no_harm(tmp_path, data):
    manifest = make_manifest()
    write_manifest(tmp_path, manifest)
    path = tmp_path / MANIFEST
    raw = path.read_bytes()
    place, byte = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, 255))
    path.write_bytes(raw[:place] + bytes([byte]) + raw[place + 1 :])
    try:
        assert read_manifest(tmp_path) == manifest
    except DataError as error:
        assert str(path) in str(error)


def test_every_damaged_bit_of_a_manifest_is_noticed_or_does_no_harm(tmp_path):
    manifest = make_manifest(text="\\ud800 \\x \u0001")
    write_manifest(tmp_path, manifest)
    path = tmp_path / MANIFEST
    raw = path.read_bytes()
    for place in range(len(raw)):
        for flip in (1, 4, 32):
            path.write_bytes(raw[:place] + bytes([raw[place] ^ flip]) + raw[place + 1 :])
            try:
                assert read_manifest(tmp_path) == manifest
            except DataError:
                continue


def test_half_of_an_escaped_character_is_noticed(tmp_path):
    r"""The text \ud800 is written as \\ud800; without its first backslash it is half a character."""
    write_manifest(tmp_path, make_manifest(text="\\ud800"))
    path = tmp_path / MANIFEST
    path.write_bytes(path.read_bytes().replace(b"\\\\ud800", b"-\\ud800"))
    with pytest.raises(DataError, match="damaged"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b'"septuagint-data"', b"[" * 100_000, b"\xff\xfe", b"{"]
)
def test_what_is_not_a_manifest_is_refused(tmp_path, content):
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(DataError, match=MANIFEST):
        read_manifest(tmp_path)


def test_a_folder_without_a_manifest_is_told_apart(tmp_path):
    with pytest.raises(DataError, match=r"not a prepared data folder .*septuagint prepare"):
        read_manifest(tmp_path)


def test_a_manifest_of_the_future_asks_for_a_newer_program(tmp_path):
    write_manifest(tmp_path, make_manifest().model_copy(update={"version": 2}))
    with pytest.raises(DataError, match=r"version 2.*update Septuagint"):
        read_manifest(tmp_path)


def test_verification_names_what_is_wrong_with_a_file(tmp_path):
    file = OutputFile(path="a", sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", bytes=3)
    with pytest.raises(DataError, match=r"a: missing"):
        verify_file(tmp_path, file)
    (tmp_path / "a").write_bytes(b"abcd")
    with pytest.raises(DataError, match=r"a: 4 bytes instead of 3"):
        verify_file(tmp_path, file)
    (tmp_path / "a").write_bytes(b"abd")
    with pytest.raises(DataError, match=r"a: damaged"):
        verify_file(tmp_path, file)
    (tmp_path / "a").write_bytes(b"abc")
    verify_file(tmp_path, file)
