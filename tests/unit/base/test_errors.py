"""Errors have three parts, contain no secret, and cross process boundaries unchanged."""

import errno
import json
import pickle

import pymysql
import pytest

from engine.base.errors import (
    ERRORS,
    DecodeError,
    DiskFullError,
    ErrorRecord,
    MismatchError,
    TidemarkError,
    TransientError,
    is_disk_full,
    printed_error,
)
from engine.base.redaction import redact

CODES = {
    "SpecError": 2,
    "PreflightError": 3,
    "LoginRefusedError": 3,
    "PrivilegesMissingError": 3,
    "SourceLostError": 4,
    "BinlogDamagedError": 4,
    "BinlogOffError": 4,
    "GtidModeError": 4,
    "PipelineHeldError": 5,
    "MismatchError": 7,
    "DifferencesFoundError": 6,
    "NotComparedError": 8,
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_an_error_crosses_processes_whole(name: str) -> None:
    """By pickle from Spark's workers, and as a dictionary through the journal, with the documented exit code."""
    error = ERRORS[name]("what", detail="means", hint="do")
    for copy in (pickle.loads(pickle.dumps(error)), printed_error(error.as_dict())):  # noqa: S301 - our own bytes
        assert type(copy) is type(error)
        assert str(copy) == "what\nmeans\ndo"
    assert error.exit_code == CODES.get(name, 1)


def test_an_unknown_error_is_still_one_of_ours() -> None:
    """From the journal of a later version."""
    assert type(printed_error({"error": "LaterError", "message": "m"})) is TidemarkError
    assert str(TransientError("only this")) == "only this"


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2",
        "PASSWORD = 'hunter2'",
        'password: "hunter2, and hunter2"',
        "passwd: hunter2; host=x",
        "{'password': 'hunter2', 'user': 'u'}",
        "token='it\\'s hunter2'",
        "ALTER USER u IDENTIFIED BY 'hunter2'",
        "CREATE USER u IDENTIFIED WITH caching_sha2_password AS 'hunter2'",
    ],
)
def test_secrets_are_removed_when_an_error_is_made(text: str) -> None:
    """From all three parts."""
    error = DecodeError(text, detail=text, hint=text)
    assert "hunter2" not in str(error)
    assert "hunter2" not in repr(error)
    assert "***" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "Check source.user and the password that source.password_env or password_file leads to.",
        "The environment variable SHOP_PASSWORD (source.password_env) is not set.",
        "The secret is safe, the token ring too.",
        "A row is identified by its key, whatever that is.",
    ],
)
def test_talk_about_secrets_is_left_alone(text: str) -> None:
    """Only text behind = or : is a value."""
    assert redact(text) == text


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device"),
        Exception("Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)"),
        DiskFullError("The disk is full."),
    ],
    ids=["errno", "quota", "arrow", "deltalake", "ours"],
)
def test_a_full_disk_is_recognised_wherever_it_comes_from(error: Exception) -> None:
    """As the error itself, as a cause, and as the context."""
    assert is_disk_full(error)
    outer = TidemarkError("Publishing failed.")
    outer.__cause__ = error
    assert is_disk_full(outer)
    handled = ValueError("later")
    handled.__context__ = error
    assert is_disk_full(handled)


@pytest.mark.parametrize(
    "error",
    [
        None,
        OSError(errno.EACCES, "Permission denied"),
        ValueError("28 rows"),
        TransientError("The server says: No space left on device"),
        pymysql.err.OperationalError(3, "Error writing file '/tmp/MY' (OS errno 28 - No space left on device)"),
    ],
)
def test_a_full_disk_of_the_source_is_not_ours(error: Exception | None) -> None:
    """Nor is any other error; a cycle of causes terminates."""
    assert not is_disk_full(error)
    if error is not None:
        error.__context__ = error
        assert not is_disk_full(error)


def test_an_error_keeps_which_tables_it_advises_to_resnapshot() -> None:
    """In files and between processes; one that advises none writes nothing of it."""
    error = MismatchError("It differs.", hint="Resnapshot them.", resnapshots=["d.t", "d.u"])
    kept = ErrorRecord.from_json(json.loads(json.dumps(error.to_record().to_json())))
    assert kept == error.to_record()
    for one in (kept.to_error(), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert (type(one), one.resnapshots) == (MismatchError, ("d.t", "d.u"))
    assert "resnapshots" not in MismatchError("It differs.").to_record().to_json()
