"""mtdata answers from a process that is started once, ends with its work, and says so when it breaks."""

import time

import psutil
import pytest

from septuagint.data.mtdata_process import Mtdata
from septuagint.errors import DataError

BROKEN = {"name": "Statmt-a-1-deu-eng"}  # no verb: a mistake of ours, which the process does not survive


def readers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "septuagint.data.mtdata_reader" in child.cmdline()]


def test_nothing_is_started_until_it_is_asked(tmp_path):
    with Mtdata(tmp_path):
        assert not readers()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_breaks_is_told_with_its_last_words(tmp_path):
    with Mtdata(tmp_path) as mtdata:
        for _ in range(2):  # it stays broken, and does not hang
            with pytest.raises(DataError, match=r"mtdata could not read Statmt-a-1-deu-eng:\n(.*\n)*KeyError: 'verb'"):
                mtdata.ask(BROKEN)
    assert not readers()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow  # mtdata's index
def test_one_process_answers_all_questions_and_goes_when_all_is_done(tmp_path):
    question = {"languages": ["en", "de"]}
    with Mtdata(tmp_path) as mtdata:
        with pytest.raises(DataError, match="did you mean Statmt-europarl_wmt13-7-deu-eng"):
            mtdata.ask({"verb": "look up", "name": "Statmt-europarl_wmt31-7-deu-eng", **question})
        (first,) = readers()
        found = mtdata.ask({"verb": "look up", "name": "Statmt-europarl_wmt13-7-deu-eng", **question})
        assert found == {"urls": ["http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz"]}
        assert readers() == [first]
    assert not readers()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("tmp")]


def test_whoever_leaves_in_the_middle_of_an_answer_does_not_wait_for_it(tmp_path, monkeypatch):
    never = tmp_path / "code/mtdata"
    never.mkdir(parents=True)
    (never / "__init__.py").write_text("import time\n\ntime.sleep(1000)\n")
    monkeypatch.setenv("PYTHONPATH", str(never.parent))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Mtdata(tmp_path / "cache") as mtdata:
        process = mtdata._start()
        assert process.stdin is not None
        process.stdin.write('{"verb": "look up", "name": "a", "languages": ["en", "de"]}\n')
        process.stdin.flush()
        time.sleep(1)
        assert process.poll() is None
        raise KeyboardInterrupt
    assert process.poll() is not None
    assert time.monotonic() - began < 8
    assert list((tmp_path / "cache").iterdir()) == []
