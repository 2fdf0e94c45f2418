"""Processes do every call once, hand back its mistakes, and end with the one that started them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from septuagint.data.workers import Workers
from septuagint.errors import DataError, UserError

pytestmark = pytest.mark.usefixtures("no_process_left")


def fail(message: str) -> None:
    raise DataError(message)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_every_call_is_done_once():
    with Workers(2) as workers:
        assert sorted(workers.run((abs, (-number,)) for number in range(50))) == list(range(50))
        assert list(workers.run([])) == []


def test_calls_are_drawn_only_as_there_is_room():
    """A corpus does not fit into memory: what has been read and not worked on stays bounded."""
    drawn = 0

    def calls():
        nonlocal drawn
        for number in range(100):
            drawn += 1
            yield abs, (number,)

    with Workers(1) as workers:
        for done, _ in enumerate(workers.run(calls())):
            assert drawn <= done + 3


def test_the_mistake_of_a_call_is_raised_here():
    with pytest.raises(DataError, match="line 5 is bad"), Workers(1) as workers:
        list(workers.run([(abs, (1,)), (fail, ("line 5 is bad",))]))


def test_a_killed_worker_is_told_with_the_cure():
    with pytest.raises(UserError, match=r"killed.*--workers 1"), Workers(1) as workers:
        list(workers.run([(kill_itself, ())]))


def test_a_failure_ends_only_the_processes_of_the_pool():
    bystander = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(30,))
    bystander.start()
    try:
        with pytest.raises(DataError), Workers(1) as workers:
            list(workers.run([(fail, ("no",))]))
        bystander.join(0.5)
        assert bystander.is_alive()
    finally:
        bystander.kill()
        bystander.join()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_that_started_them(how, tmp_path):
    """Even in the middle of a call."""
    program = (
        "import time\nfrom septuagint.data.workers import Workers\n"
        "if __name__ == '__main__':\n"
        "    with Workers(2) as workers:\n"
        "        list(workers.run([(abs, (1,)), (time.sleep, (60,)), (time.sleep, (60,))]))\n"
    )
    (tmp_path / "program.py").write_text(program)
    parent = subprocess.Popen([sys.executable, str(tmp_path / "program.py")], stderr=subprocess.DEVNULL)
    children: list[psutil.Process] = []
    deadline = time.monotonic() + 10
    while sum("spawn_main" in " ".join(child.cmdline()) for child in children) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        children = psutil.Process(parent.pid).children(recursive=True)
    time.sleep(0.5)
    parent.send_signal(how)
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=5)
    assert children and not alive
