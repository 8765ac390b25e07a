"""What the tests of the watchdog share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import __main__ as _verbs  # noqa: F401 - registers them
from tests.support.receiver import Receiver
from tests.unit.watch.homes import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home; its programs end with the test."""
    monkeypatch.setenv("TIDEMARK_TEST_HOOK", "http://127.0.0.1:9/hook/s3cret?key=k3y")
    made = Home(tmp_path, monkeypatch)
    made.spec()
    yield made
    made.close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A webhook that the spec names."""
    made = Receiver()
    monkeypatch.setenv("TIDEMARK_TEST_HOOK", made.url)
    yield made
    made.close()
