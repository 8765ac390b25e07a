"""Errors of requests are the store's, and say nothing of a table."""

from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine.base.store_errors import StoreAwayError
from engine.destination.delta.log import table_opening
from engine.destination.delta.log.table_opening import BucketTable, open_table
from engine.store.bucket_folder import BucketFolder
from engine.store.bucket_settings import BucketSettings

FOLDER = BucketFolder(BucketSettings("s3://lake", "http://127.0.0.1:9", "us-east-1"), "d/t")
TIMED_OUT = "Kernel error -> \x1b[31mx\x1b[0mGeneric S3 error: Error performing GET http://s/0.json in 30.0 s\n more"
DAMAGED = "Invalid table: a commit is no JSON"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The errors with which the library fails from now on. The store itself answers again."""
    errors = list[str]()

    def fail(*_: Any, **__: Any) -> None:
        if errors:
            raise DeltaError(errors[0])

    monkeypatch.setattr(DeltaTable, "__init__", fail)
    monkeypatch.setattr(DeltaTable, "version", lambda _: 3)
    monkeypatch.setattr(DeltaTable, "table_uri", "s3://lake/d/t")
    for name in ("transaction_version", "get_add_actions", "load_as_version"):
        monkeypatch.setattr(DeltaTable, name, fail)
    monkeypatch.setattr(BucketFolder, "find", lambda *_: None)
    return errors


def test_a_request_that_is_not_answered_is_an_outage(failing: list[str]) -> None:
    """Also if the store answers again before we ask it; and when the library reads the log once more."""
    failing.append(TIMED_OUT)
    with pytest.raises(StoreAwayError) as away:
        open_table(FOLDER)
    assert str(away.value).endswith(": Generic S3 error: Error performing GET http://s/0.json in 30.0 s")
    failing.clear()
    delta = open_table(FOLDER)
    assert isinstance(delta, BucketTable)
    failing.append(TIMED_OUT)
    for ask in (lambda: delta.transaction_version("a"), delta.get_add_actions, lambda: delta.load_as_version(2)):
        with pytest.raises(StoreAwayError):
            ask()


def test_a_damaged_table_stays_one(failing: list[str]) -> None:
    """Nobody waits for it."""
    failing.append(DAMAGED)
    with pytest.raises(DeltaError, match="no JSON"):
        open_table(FOLDER)
    assert table_opening._REQUEST_FAILED.search(DAMAGED) is None
