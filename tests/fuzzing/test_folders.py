"""A few of the random cases of damaged and forged folders; `folders.run` takes any seed."""

import os
import signal

import pytest

from fuzzing import folders


@pytest.fixture(scope="module", autouse=True)
def server():
    yield
    folders.stop()


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_or_forged_folder_gives_the_right_answer_or_a_clear_error(seed):
    folders.run(seed)


def test_a_case_that_ends_its_process_is_reported():
    assert "killed by SIGKILL" in folders._forked(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert "ZeroDivisionError" in folders._forked(lambda: 1 / 0)
    assert not folders._forked(lambda: None)
