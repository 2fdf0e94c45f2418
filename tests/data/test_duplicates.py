"""Duplicates are those that a set would find, in any number of files and however little fits into memory."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septuagint.data.duplicates import HASH_TYPE, find_duplicates


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(
        st.lists(st.one_of(st.integers(0, 12), st.integers(2**63, 2**64 - 1)), max_size=30), min_size=0, max_size=5
    ),
    max_partition=st.integers(1, 50),
)
def test_duplicates_are_those_that_a_set_finds(tmp_path, files, max_partition):
    paths = []
    for number, hashes in enumerate(files):
        paths.append(tmp_path / f"{number}.hashes")
        paths[-1].write_bytes(np.array(hashes, HASH_TYPE).tobytes())
    seen: set[int] = set()
    expected = []
    for hashes in files:
        expected.append([value in seen or seen.add(value) is not None for value in hashes])
    assert [answer.tolist() for answer in find_duplicates(paths, max_partition)] == expected
