"""Shards give back the ids that went in, sentence by sentence."""

import hashlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septuagint.data.manifest import OutputFile, Side
from septuagint.data.shards import open_shard, write_shard
from septuagint.errors import DataError


def side_of(ids: OutputFile, offsets: OutputFile) -> Side:
    return Side(ids=ids, offsets=offsets, text=None, tokens=0, longest=0, words=0, characters=0, bytes=0, lengths=())


def part_of(sentences: list[list[int]], id_type: str) -> tuple[np.ndarray, np.ndarray]:
    ids = np.array([i for sentence in sentences for i in sentence], id_type)
    return ids, np.array([len(sentence) for sentence in sentences], np.int64)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), id_type=st.sampled_from(["<u2", "<u4"]))
def test_any_ids_come_back(tmp_path, data, id_type):
    largest = np.iinfo(id_type).max
    sentence = st.lists(st.integers(0, largest), max_size=6)
    parts = data.draw(st.lists(st.lists(sentence, max_size=6), max_size=4))
    files = write_shard(tmp_path, "source", (part_of(part, id_type) for part in parts), np.dtype(id_type))
    shard = open_shard(tmp_path, side_of(*files), id_type)
    sentences = [sentence for part in parts for sentence in part]
    assert len(shard) == len(sentences)
    assert [ids.tolist() for ids in shard] == sentences
    assert shard.lengths.tolist() == [len(sentence) for sentence in sentences]
    for file in files:
        raw = (tmp_path / file.path).read_bytes()
        assert (len(raw), hashlib.sha256(raw).hexdigest()) == (file.bytes, file.sha256)


def test_sentences_beyond_the_end_are_refused(tmp_path):
    files = write_shard(tmp_path, "a", [part_of([[1, 2], []], "<u2")], np.dtype("<u2"))
    shard = open_shard(tmp_path, side_of(*files), "<u2")
    for index in (-1, 2):
        with pytest.raises(IndexError):
            shard[index]


@pytest.mark.parametrize("name", ["a.ids", "a.offsets"])
def test_a_shard_that_lost_bytes_is_refused_with_its_name(tmp_path, name):
    files = write_shard(tmp_path, "a", [part_of([[1, 2], [3]], "<u2")], np.dtype("<u2"))
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match=rf"{name}.*septuagint prepare"):
        open_shard(tmp_path, side_of(*files), "<u2")
    path.unlink()
    with pytest.raises(DataError, match=rf"{name}: No such file.*septuagint prepare"):
        open_shard(tmp_path, side_of(*files), "<u2")


def test_offsets_that_do_not_fit_the_ids_are_refused(tmp_path):
    files = write_shard(tmp_path, "a", [part_of([[1, 2], [3]], "<u2")], np.dtype("<u2"))
    (tmp_path / "a.offsets").write_bytes(np.array([0, 2, 4], "<i8").tobytes())
    with pytest.raises(DataError, match="does not fit its ids"):
        open_shard(tmp_path, side_of(*files), "<u2")


def test_a_shard_that_cannot_be_written_whole_is_not_written_at_all(tmp_path):
    def parts():
        yield part_of([[1, 2]], "<u2")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_shard(tmp_path, "a", parts(), np.dtype("<u2"))
    assert list(tmp_path.iterdir()) == []
