"""Lines of any text stay aligned, however the file is written, compressed and cut."""

import bz2
import gzip
import hashlib
import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septuagint.config import CorpusConfig
from septuagint.data import archives
from septuagint.data import corpus as corpora
from septuagint.data.corpus import (
    MAX_LINE_BYTES,
    Layout,
    check_parallel,
    find_layout,
    read_blocks,
    scan_file,
    split_block,
)
from septuagint.errors import DataError

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda raw: raw,
    "gz": lambda raw: gzip.compress(raw, 1),
    "bz2": lambda raw: bz2.compress(raw, 1),
    "xz": lambda raw: lzma.compress(raw, preset=0),
    "zst": lambda raw: zstandard.compress(raw, 1),
}
ARCHIVES = [kind for kind in COMPRESS if kind != "plain"]

# Everything that some program somewhere takes for the end of a line, and the line feed is not among it.
SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\t\x00\ufeff"
TEXT = st.text(
    st.one_of(st.sampled_from(SEPARATORS), st.characters(exclude_categories=["Cs"], exclude_characters="\n")),
    max_size=12,
)
LINES = st.lists(TEXT, min_size=1, max_size=25)
MODEST = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def corpus_of(root: Path, **fields: object) -> CorpusConfig:
    return CorpusConfig.model_validate(fields, context={"folder": root, "root": root})


def read_pairs(corpus: CorpusConfig, layout: Layout, max_line_bytes: int = MAX_LINE_BYTES) -> list[tuple[str, str]]:
    """Every pair of a corpus, as `prepare` reads them."""
    scans = tuple(scan_file(path) for path in corpus.paths)
    check_parallel(corpus, scans)
    pairs: list[tuple[str, str]] = []
    for block in read_blocks(corpus, scans, max_line_bytes):
        assert block.first_line == len(pairs) + 1
        raw = split_block(block, layout)
        pairs += zip(raw.sources, raw.targets, strict=True)
    assert len(pairs) == scans[0].num_lines
    return pairs


def archive(kind: str, text: bytes, num_archives: int) -> bytes:
    """One text as several archives end to end."""
    step = -(-len(text) // num_archives) or 1
    return b"".join(COMPRESS[kind](text[start : start + step]) for start in range(0, len(text), step))


def written(lines: list[str], *, is_closed: bool) -> bytes:
    """Lines as a file; without its last line feed a file cannot end in an empty line."""
    text = "\n".join(lines).encode()
    return text + b"\n" if is_closed or lines[-1] == "" else text


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def use(block_lines: int, raw_bytes: int) -> None:
        monkeypatch.setattr(corpora, "BLOCK_LINES", block_lines)
        monkeypatch.setattr(corpora, "_GROUP_LINES", max(1, block_lines // 2))
        monkeypatch.setattr(archives, "_RAW_BYTES", dict.fromkeys(COMPRESS, raw_bytes))
        monkeypatch.setattr(archives, "_TEXT_BYTES", raw_bytes)

    return use


@MODEST
@given(
    lines=LINES,
    kind=st.sampled_from(list(COMPRESS)),
    is_closed=st.tuples(st.booleans(), st.booleans()),
    num_archives=st.integers(1, 3),
    block_lines=st.integers(1, 7),
    raw_bytes=st.sampled_from([1, 2, 5, 64, 1 << 20]),
)
def test_two_files_give_every_pair_in_order(
    tmp_path, small_blocks, lines, kind, is_closed, num_archives, block_lines, raw_bytes
):
    small_blocks(block_lines, raw_bytes)
    targets = [f"{number} {line}" for number, line in enumerate(lines)]
    (tmp_path / "a.en").write_bytes(archive(kind, written(lines, is_closed=is_closed[0]), num_archives))
    (tmp_path / "a.de").write_bytes(archive(kind, written(targets, is_closed=is_closed[1]), num_archives))
    corpus = corpus_of(tmp_path, source="a.en", target="a.de")
    assert read_pairs(corpus, Layout(form="two files")) == list(zip(lines, targets, strict=True))


@MODEST
@given(
    lines=LINES,
    columns=st.permutations([1, 2, 3]),
    kind=st.sampled_from(list(COMPRESS)),
    is_closed=st.booleans(),
    block_lines=st.integers(1, 7),
)
def test_tsv_gives_every_pair_in_order(tmp_path, small_blocks, lines, columns, kind, is_closed, block_lines):
    small_blocks(block_lines, 64)
    rows = [(line.replace("\t", ""), str(number)) for number, line in enumerate(lines)]
    places = {columns[0]: 0, columns[1]: 1}
    text = ["\t".join("-" if i not in places else row[places[i]] for i in (1, 2, 3)) for row in rows]
    (tmp_path / "a.tsv").write_bytes(archive(kind, written(text, is_closed=is_closed), 1))
    corpus = corpus_of(tmp_path, tsv="a.tsv", source_field=columns[0], target_field=columns[1])
    assert read_pairs(corpus, find_layout(corpus, "en", "de")) == rows


@MODEST
@given(
    lines=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=20),
    is_ascii=st.booleans(),
    kind=st.sampled_from(list(COMPRESS)),
    is_closed=st.booleans(),
    raw_bytes=st.sampled_from([1, 5, 64, 1 << 20]),
    keys=st.sampled_from([("source", "target"), ("en", "de"), ("src", "tgt")]),
)
def test_json_lines_give_every_pair_in_order(tmp_path, small_blocks, lines, is_ascii, kind, is_closed, raw_bytes, keys):
    small_blocks(3, raw_bytes)
    pairs = [(line, f"{number}\n{line}") for number, line in enumerate(lines)]
    rows = [json.dumps(dict(zip(keys, pair, strict=True)), ensure_ascii=is_ascii) for pair in pairs]
    (tmp_path / "a.jsonl").write_bytes(archive(kind, written(rows, is_closed=is_closed), 1))
    corpus = corpus_of(tmp_path, jsonl="a.jsonl")
    assert read_pairs(corpus, find_layout(corpus, "en", "de")) == pairs


@pytest.mark.parametrize("kind", ARCHIVES)
def test_keys_are_found_in_the_first_line_of_a_large_archive(tmp_path, kind):
    """Decompressors of large archives begin with nothing, or with less than a line."""
    digits = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(40_000)).hex()
    rows = [json.dumps({"en": "a" + digits[at : at + 1000], "de": "b"}) for at in range(0, len(digits), 1000)]
    compress = bz2.compress if kind == "bz2" else COMPRESS[kind]  # with its usual blocks of 900 kB
    (tmp_path / "a.jsonl").write_bytes(compress(written(rows, is_closed=True)))
    corpus = corpus_of(tmp_path, jsonl="a.jsonl")
    assert find_layout(corpus, "en", "de") == Layout(form="jsonl", source_field="en", target_field="de")


def test_keys_may_lead_through_objects_or_have_dots(tmp_path):
    (tmp_path / "nested.jsonl").write_text('{"translation": {"en": "a", "de": "b"}}\n')
    corpus = corpus_of(tmp_path, jsonl="nested.jsonl")
    assert read_pairs(corpus, find_layout(corpus, "en", "de")) == [("a", "b")]
    (tmp_path / "dotted.jsonl").write_text('{"text.en": "a", "text.de": "b"}\n')
    corpus = corpus_of(tmp_path, jsonl="dotted.jsonl", source_field="text.en", target_field="text.de")
    assert read_pairs(corpus, find_layout(corpus, "en", "de")) == [("a", "b")]


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_plain_file_with_the_name_of_an_archive_is_read_as_text(tmp_path, kind):
    (tmp_path / f"a.{kind}").write_text("one\ntwo\n")
    assert scan_file(tmp_path / f"a.{kind}").num_lines == 2


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_without_the_name_of_one_is_unpacked(tmp_path, kind):
    (tmp_path / "a.en").write_bytes(COMPRESS[kind](b"one\ntwo\n"))
    assert scan_file(tmp_path / "a.en").num_lines == 2


def test_text_that_begins_like_an_archive_by_chance_is_text(tmp_path):
    (tmp_path / "a.en").write_text("BZhang wrote to me.\nHe did.\n")
    assert scan_file(tmp_path / "a.en").num_lines == 2


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_zeros_behind_an_archive_are_padding(tmp_path, kind):
    (tmp_path / "a.en").write_bytes(COMPRESS[kind](b"one\ntwo") + bytes(512))
    assert scan_file(tmp_path / "a.en").num_lines == 2


def test_zeros_between_two_xz_archives_are_padding(tmp_path):
    (tmp_path / "a.en").write_bytes(lzma.compress(b"one\n") + bytes(8) + lzma.compress(b"two\n"))
    assert scan_file(tmp_path / "a.en").num_lines == 2


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_cut_archive_is_named_with_the_place(tmp_path, kind):
    raw = COMPRESS[kind](b"".join(b"line %d\n" % number for number in range(2000)))
    path = tmp_path / f"a.{kind}"
    for keep in (len(raw) // 3, len(raw) - 1):
        path.write_bytes(raw[:keep])
        with pytest.raises(DataError, match=rf"a\.{kind}: damaged {kind} archive, at byte .* of {keep:,}"):
            scan_file(path)


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_flipped_bit_in_an_archive_never_changes_the_text_unseen(tmp_path, kind):
    """Checksums of the formats are weak or missing in places: the text is either refused or as it was."""
    text = b"".join(b"line %d\n" % number for number in range(300))
    compress = zstandard.ZstdCompressor(1, write_checksum=True).compress if kind == "zst" else COMPRESS[kind]
    raw = compress(text)
    path = tmp_path / "a"
    for place in range(0, len(raw), max(1, len(raw) // 40)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :])
        try:
            found = b"".join(archives.read_text(path, hashlib.sha256()))
        except DataError:
            continue
        assert found == text or found == path.read_bytes()  # a damaged magic number makes it a plain file


def test_a_file_is_told_apart_by_its_bytes_on_disk(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one\n"))
    scan = scan_file(path)
    assert scan.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert scan.num_bytes == path.stat().st_size


def test_a_line_beyond_all_measure_does_not_move_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_RAW_BYTES", {"plain": 30})
    lines = ["one", "x" * 1000, "two", "y" * 99, "three", "z" * 10_000]
    for side in ("a.en", "a.de"):
        (tmp_path / side).write_text("\n".join(lines) + ("" if side == "a.en" else " \n"))
    pairs = read_pairs(corpus_of(tmp_path, source="a.en", target="a.de"), Layout(form="two files"), 100)
    assert [source[:5] for source, _ in pairs] == ["one", "xxxxx", "two", "yyyyy", "three", "zzzzz"]
    assert all(len(source) <= 130 for source, _ in pairs)
    assert pairs[3][0] == lines[3]


def test_an_overlong_line_is_not_called_damaged(tmp_path, monkeypatch):
    """Whatever is passed over of a long line, what is left of it must still be whole characters."""
    path = tmp_path / "a.en"
    path.write_text("aé日𝄞" * 100 + "\n")
    corpus = corpus_of(tmp_path, source="a.en", target="a.en")
    for piece in (1, 10, 50, 64, 100, 101, 1000):
        monkeypatch.setattr(archives, "_RAW_BYTES", {"plain": piece})
        for limit in range(90, 101):
            (block,) = read_blocks(corpus, (scan_file(path), scan_file(path)), limit)
            assert split_block(block, Layout(form="two files")).damage == {}
            assert len(block.source) > limit - 4


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_a_row_that_was_cut_is_too_long_and_not_malformed(tmp_path, name):
    text = "word " * 500_000
    row = f"{text}\t{text}\n" if name == "a.tsv" else json.dumps({"source": text, "target": text}) + "\n"
    path = tmp_path / name
    path.write_text(row)
    form = path.suffix.removeprefix(".")
    corpus = corpus_of(tmp_path, **{form: name})
    layout = (
        Layout(form="tsv", source_field=1, target_field=2)
        if form == "tsv"
        else Layout(form="jsonl", source_field="source", target_field="target")
    )
    (block,) = read_blocks(corpus, (scan_file(path),))
    pairs = split_block(block, layout)
    assert pairs.damage == {}
    assert min(len(pairs.sources[0]), len(pairs.targets[0])) > 100_000


@pytest.mark.parametrize("kind", ARCHIVES)
def test_memory_does_not_follow_an_archive_that_expands_a_thousandfold(tmp_path, kind):
    """200 MB of text without a single line feed, from an archive of some kilobytes."""
    piece = COMPRESS[kind](b"a" * 20_000_000)
    (tmp_path / "a.en").write_bytes(COMPRESS["zst"](b"a" * 200_000_000) if kind == "zst" else piece * 10)
    program = (
        "import re, sys; from pathlib import Path; from septuagint.data.corpus import *;"
        "path = Path(sys.argv[1]); scan = scan_file(path);"
        "corpus = CorpusConfig.model_validate({'source': path, 'target': path}, context={'root': Path()});"
        "blocks = list(read_blocks(corpus, (scan, scan)));"
        "print(int(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024, len(blocks))"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "a.en")]
    result = subprocess.run(arguments, capture_output=True, text=True, check=True)
    megabytes, num_blocks = map(int, result.stdout.split())
    assert num_blocks == 1
    assert megabytes < 150


class TestDamage:
    """A damaged line is still a pair, so that those below it stay where they are."""

    def split(self, root: Path, name: str, content: bytes, layout: Layout) -> corpora.RawPairs:
        path = root / name
        path.write_bytes(content)
        corpus = corpus_of(root, tsv=name)
        (block,) = read_blocks(corpus, (scan_file(path),))
        return split_block(block, layout)

    def test_invalid_utf8_is_marked_on_either_side(self, tmp_path):
        (tmp_path / "a.en").write_bytes(b"good\nb\xffd\ngood\n")
        (tmp_path / "a.de").write_bytes(b"gut\nschlecht\ng\xe4\n")
        corpus = corpus_of(tmp_path, source="a.en", target="a.de")
        (block,) = read_blocks(corpus, tuple(map(scan_file, corpus.paths)))
        pairs = split_block(block, Layout(form="two files"))
        assert pairs.damage == {1: "invalid_utf8", 2: "invalid_utf8"}
        assert pairs.sources == ["good", "b\ufffdd", "good"]

    def test_rows_without_the_columns_are_marked(self, tmp_path):
        layout = Layout(form="tsv", source_field=1, target_field=2)
        pairs = self.split(tmp_path, "a.tsv", b"a\tb\nonly one\na\tb\tmore\n\n", layout)
        assert pairs.damage == {1: "malformed", 3: "malformed"}
        assert len(pairs.sources) == len(pairs.targets) == 4

    def test_json_that_is_not_two_texts_is_marked(self, tmp_path):
        layout = Layout(form="jsonl", source_field="en", target_field="de")
        bad = [b"", b"[]", b'{"en": "a"}', b'{"en": "a", "de": 5}', b'{"en": "a", "de"', b"null", b"[" * 100_000, b"1e"]
        good = b'{"en": "a", "de": "b"}'
        content = b"\n".join(line for pair in zip(bad, [good] * len(bad), strict=True) for line in pair)
        pairs = self.split(tmp_path, "a.jsonl", content, layout)
        assert pairs.damage == dict.fromkeys(range(0, 2 * len(bad), 2), "malformed")
        assert pairs.sources[1::2] == ["a"] * len(bad)

    def test_a_lone_surrogate_in_json_becomes_the_replacement_character(self, tmp_path):
        layout = Layout(form="jsonl", source_field="en", target_field="de")
        pairs = self.split(tmp_path, "a.jsonl", b'{"en": "a\\ud800b", "de": "c"}\n', layout)
        assert pairs.damage == {0: "invalid_utf8"}
        assert pairs.sources == ["a\ufffdb"]


class TestRefusals:
    """What cannot be parallel text is refused with its name and the cure."""

    def test_unequal_line_counts_are_both_shown(self, tmp_path):
        (tmp_path / "a.en").write_text("1\n" * 1200)
        (tmp_path / "a.de").write_text("1\n" * 1201)
        corpus = corpus_of(tmp_path, source="a.en", target="a.de")
        with pytest.raises(DataError, match=r"1,200 lines.*1,201"):
            check_parallel(corpus, tuple(map(scan_file, corpus.paths)))

    @pytest.mark.parametrize("change", [b"other\ntext\n", b"one\n", b"one\ntwo\nthree\n", b""])
    def test_a_file_that_changed_since_it_was_scanned_is_noticed(self, tmp_path, change):
        corpus = corpus_of(tmp_path, source="a.en", target="a.de")
        (tmp_path / "a.en").write_bytes(b"one\ntwo\n")
        (tmp_path / "a.de").write_bytes(b"eins\nzwei\n")
        scans = tuple(map(scan_file, corpus.paths))
        (tmp_path / "a.en").write_bytes(change)
        with pytest.raises(DataError, match=r"a\.en: the file changed while it was being read"):
            for block in read_blocks(corpus, scans):
                split_block(block, Layout(form="two files"))

    def test_a_file_that_lost_a_whole_block_since_it_was_scanned_is_noticed(self, tmp_path, small_blocks):
        small_blocks(2, 64)
        corpus = corpus_of(tmp_path, source="a.en", target="a.de")
        (tmp_path / "a.en").write_bytes(b"one\ntwo\nthree\n")
        (tmp_path / "a.de").write_bytes(b"eins\nzwei\ndrei\n")
        scans = tuple(map(scan_file, corpus.paths))
        (tmp_path / "a.en").write_bytes(b"one\ntwo\n")
        with pytest.raises(DataError, match=r"a\.en: the file changed while it was being read"):
            list(read_blocks(corpus, scans))
