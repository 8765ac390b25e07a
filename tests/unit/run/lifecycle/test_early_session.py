"""The session that a standby runner starts while it waits."""

import threading
from typing import cast

import pytest

from engine.run.lifecycle.spark_sessions import EarlySession
from engine.spark.session import Session


class Opened:
    """A session of which only its end matters."""

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


class Opener:
    """Opens sessions; the first `failures` tries fail."""

    def __init__(self, failures: int = 0) -> None:
        self.made: list[Opened] = []
        self.begun = threading.Event()
        self._failures = failures

    def open(self) -> Session:
        self.begun.set()
        if self._failures:
            self._failures -= 1
            raise RuntimeError("no Java")
        self.made.append(Opened())
        return cast("Session", self.made[-1])


def test_it_is_started_before_it_is_asked_for_and_given_once() -> None:
    """Later ones are new: the first one was lost by then."""
    opener = Opener()
    early = EarlySession(opener.open)
    assert opener.begun.wait(10)
    first, second = early.open(), early.open()
    early.close()
    assert [id(one) for one in opener.made] == [id(first), id(second)]
    assert not any(one.stopped for one in opener.made)


def test_a_start_that_failed_is_tried_again_when_it_is_needed() -> None:
    """What hindered it may be over by then; if not, that error is raised."""
    opener = Opener(failures=1)
    early = EarlySession(opener.open)
    assert id(early.open()) == id(opener.made[0])
    early.close()
    again = EarlySession(Opener(failures=2).open)
    with pytest.raises(RuntimeError, match="no Java"):
        again.open()
    again.close()


def test_one_that_nobody_asked_for_is_stopped() -> None:
    """The standby runner was ended, or the wait was in vain."""
    opener = Opener()
    early = EarlySession(opener.open)
    assert opener.begun.wait(10)
    early.close()
    assert [one.stopped for one in opener.made] == [True]
    EarlySession(Opener(failures=1).open).close()
