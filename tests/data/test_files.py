"""Files are written whole or not at all, and what is known of them is forgotten when they change."""

import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septuagint.data import files
from septuagint.data.files import Known, hash_json, read_object, signature, write_json, written_aside


def test_a_file_has_its_old_content_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "folder" / "a"
    with written_aside(path) as file:
        file.write(b"old")
    with written_aside(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), written_aside(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("a", b"old")]


PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), PLAIN_TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(PLAIN_TEXT, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(PLAIN_TEXT, VALUES, max_size=3))
def test_json_comes_back_as_it_was_written(tmp_path, value):
    write_json(tmp_path / "a.json", value)
    assert read_object(tmp_path / "a.json") == value


@pytest.mark.parametrize("content", [b'{"half": ', b"", b"[]", b"null", b"5", b"\xff"])
def test_what_is_not_a_json_object_is_empty(tmp_path, content):
    assert read_object(tmp_path / "a.json") == {}
    (tmp_path / "a.json").write_bytes(content)
    assert read_object(tmp_path / "a.json") == {}


def test_hash_does_not_depend_on_the_order_of_keys():
    assert hash_json({"a": 1, "b": [2]}) == hash_json({"b": [2], "a": 1})
    assert hash_json({"a": 1, "b": [2]}) != hash_json({"a": 1, "b": [2, 2]})


class TestKnown:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "_SETTLED_NANOSECONDS", -1)

    def test_a_fact_outlives_the_process(self, tmp_path):
        (tmp_path / "a").write_bytes(b"x")
        known = Known(tmp_path / "known.json")
        known.put(tmp_path / "a", {"lines": 1}, signature(tmp_path / "a"))
        known.save()
        assert Known(tmp_path / "known.json").get(tmp_path / "a") == {"lines": 1}
        assert Known(tmp_path / "known.json", is_trusted=False).get(tmp_path / "a") is None

    def test_a_touched_file_is_unknown(self, tmp_path):
        path = tmp_path / "a"
        path.write_bytes(b"x")
        known = Known(tmp_path / "known.json")
        known.put(path, 1, signature(path))
        status = path.stat()
        time.sleep(0.02)
        path.write_bytes(b"y")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # as if nothing had happened
        assert known.get(path) is None

    def test_a_replaced_or_removed_file_is_unknown(self, tmp_path):
        path = tmp_path / "a"
        path.write_bytes(b"x")
        known = Known(tmp_path / "known.json")
        known.put(path, 1, signature(path))
        (tmp_path / "b").write_bytes(b"y")
        (tmp_path / "b").replace(path)
        assert known.get(path) is None
        path.unlink()
        assert known.get(path) is None

    def test_facts_of_removed_files_are_forgotten(self, tmp_path):
        (tmp_path / "a").write_bytes(b"x")
        known = Known(tmp_path / "known.json")
        known.put(tmp_path / "a", 1, signature(tmp_path / "a"))
        (tmp_path / "a").unlink()
        known.save()
        assert read_object(tmp_path / "known.json") == {}

    @pytest.mark.parametrize("entry", [5, [], {}, {"signature": []}, {"fact": 1}, None])
    def test_a_damaged_entry_is_as_good_as_none(self, tmp_path, entry):
        path = tmp_path / "a"
        path.write_bytes(b"x")
        write_json(tmp_path / "known.json", {str(path): entry})
        assert Known(tmp_path / "known.json").get(path) is None

    def test_a_name_that_is_not_utf8_can_be_remembered(self, tmp_path):
        path = tmp_path / os.fsdecode(b"caf\xe9")
        path.write_bytes(b"x")
        known = Known(tmp_path / "known.json")
        known.put(path, 1, signature(path))
        known.save()
        assert Known(tmp_path / "known.json").get(path) == 1


def test_a_file_changed_a_moment_ago_is_not_remembered(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    known = Known(tmp_path / "known.json")
    known.put(tmp_path / "a", 1, signature(tmp_path / "a"))
    assert known.get(tmp_path / "a") is None
