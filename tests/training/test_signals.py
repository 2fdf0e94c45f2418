"""The first signal decides; what batch systems send in pairs does not end a step."""

import os
import signal

from septuagint.training.signals import Signals, exit_code


def test_a_batch_system_may_warn_first_and_ask_later():
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)  # the first that asks to end: noted, not obeyed at once
        assert signals.received == signal.SIGUSR1
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_lost_connection_is_noted_unless_it_is_to_be_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
        assert signals.received == signal.SIGHUP
        assert exit_code(signal.SIGHUP) == 129
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
        assert signals.received is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_are_handled_as_before_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    with Signals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
