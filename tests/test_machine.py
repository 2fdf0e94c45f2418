"""What is known of this machine."""

import os

from septuagint.machine import available_cores, cpu_model


def test_available_cores_are_those_of_this_process():
    assert 1 <= available_cores() <= (os.cpu_count() or 1)


def test_the_processor_has_a_name():
    assert cpu_model() == cpu_model().strip() != ""
