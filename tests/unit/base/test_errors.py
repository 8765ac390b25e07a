"""Errors say three things, keep no secret, and cross processes whole."""

import pickle

import pytest

from engine.errors import ERRORS, DecodeError, TidemarkError, TransientError, from_dict, redact

CODES = {
    "SpecError": 2,
    "PreflightError": 3,
    "SourceLostError": 4,
    "BinlogDamagedError": 4,
    "GtidModeError": 4,
    "PipelineHeldError": 5,
    "DifferenceError": 6,
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_an_error_crosses_processes_whole(name: str) -> None:
    """By pickle from Spark's workers, as a dictionary through the journal; with the exit code of the contract."""
    error = ERRORS[name]("what", detail="means", hint="do")
    for copy in (pickle.loads(pickle.dumps(error)), from_dict(error.as_dict())):  # noqa: S301 - our own bytes
        assert type(copy) is type(error)
        assert str(copy) == "what\nmeans\ndo"
    assert error.exit_code == CODES.get(name, 1)


def test_an_unknown_error_is_still_one_of_ours() -> None:
    """A journal of a later version."""
    assert type(from_dict({"error": "LaterError", "message": "m"})) is TidemarkError
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
    """In all three parts."""
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
    """Only what follows = or : is a value."""
    assert redact(text) == text
