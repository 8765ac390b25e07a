"""Redaction: known secrets and what looks like a secret are removed from texts; data stays unchanged."""

import json
from pathlib import Path

import pytest

from engine.base import redaction
from engine.base.redaction import KnownSecrets, Scrubber, clean, clean_line, clean_toml, hidden, holds_secret, redact
from engine.journal import Journal
from engine.journal.events import ChunkPlanned, ErrorReported
from engine.spark.configuration import redacting
from engine.spec.settings import Spark


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.anything",
        "spark.ssl.keyStorePassword",
        "spark.executorEnv.SERVICE",
        "spark.hadoop.fs.azure.sas.c.a",
        "spark.authenticate.secret",
        "mask_salt",
    ],
)
def test_settings_that_may_hold_a_secret_are_hidden(name: str) -> None:
    """By name, in the spec and on Spark's pages."""
    assert hidden(name)
    assert clean({"spark": {"conf": {name: "hunter2"}}}) == {"spark": {"conf": {name: "***"}}}
    assert clean_toml(f'"{name}" = "hunter2"') == f'"{name}" = "***"'


def test_a_reference_is_no_secret() -> None:
    """Nor is the name of a chunk key."""
    text = 'password_env = "P"\nmask_salt_file = "salt"\nwebhook_env = "W"\nkey = "id"\nchunk_key = { "d.t" = "id" }\n'
    assert clean_toml(text) == text


def test_whether_a_password_was_used_stays() -> None:
    """The server says no more than that."""
    text = "Access denied for user 'u'@'h' (using password: YES)"
    assert redact(text) == text
    assert redact("(using password: YES, NO)") == "(using password: ***, NO)"


def test_known_values_are_found_as_others_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As JSON, within a URL, and line by line; a short value only as a word."""
    monkeypatch.setattr(redaction, "_KNOWN", KnownSecrets())
    redaction.learn(
        'a "q"/b', "https://h.example/T0/abcdefghij?t=0123456789", "first line\nsecond line", "xy", None, ""
    )
    for text in (json.dumps('a "q"/b'), "a%20%22q%22%2Fb", "abcdefghij", "0123456789", "second line", "(xy)"):
        assert "***" in redact(text), text
    assert redact("proxy, about") == "proxy, about"


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY"])
def test_credentials_of_stores_are_learnt_from_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the names of their variables."""
    monkeypatch.setattr(redaction, "_KNOWN", KnownSecrets())
    monkeypatch.setenv(name, "sv=2026&sig=c2VjcmV0")
    redaction.learn_environment()
    assert redact("403: sv=2026&sig=c2VjcmV0") == "403: ***"


def test_data_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal's bounds are read back, so a bound that looks like a secret stays unchanged."""
    monkeypatch.setattr(redaction, "_KNOWN", KnownSecrets(["hunter2"]))
    line = clean_line({"lower": "hunter2", "upper": "token=x", "table": "d.hunter2", "message": "hunter2, token=x"})
    assert line == {"lower": "hunter2", "upper": "token=x", "table": "d.hunter2", "message": "***, token=***"}
    journal = Journal(tmp_path / "r.jsonl", "r")
    journal.write(
        ErrorReported(error="E", message="login with hunter2", detail="me:p4ss@h, mysql://me:p4ss@h/x", hint="")
    )
    journal.write(ChunkPlanned(table="d.t", chunks=[[0, "hunter2", None]], complete=True))
    journal.close()
    text = (tmp_path / "r.jsonl").read_text()
    assert "login with ***" in text
    assert "mysql://me:***@h/x" in text
    assert '[0, "hunter2", null]' in text


def test_what_is_removed_is_counted() -> None:
    """For every input."""
    scrubber = Scrubber(["hunter2"])
    assert scrubber.clean("hunter2 and password=x\nhunter2") == "*** and password=***\n***"
    assert scrubber.removed == 3


def test_secrets_do_not_stand_in_the_list_of_processes() -> None:
    """A setting that goes into the JVM's command line is refused if it holds a secret; all others are set later."""
    with pytest.raises(ValueError, match=r"process list"):
        Spark(conf={"spark.driver.extraJavaOptions": "-Djavax.net.ssl.keyStorePassword=hunter2"})
    assert Spark(conf={"spark.driver.extraJavaOptions": "-Xss4m"}).conf
    assert holds_secret("spark.hadoop.fs.s3a.secret.key", "hunter2")
    assert holds_secret("spark.hadoop.proxy", "http://me:hunter2@proxy/")
    assert not holds_secret("spark.authenticate.secretBitLength", "256")
    assert not holds_secret("spark.driver.memory", "1g")


def test_sparks_own_redaction_covers_ours() -> None:
    """In addition to what the spec names."""
    import re

    for conf in ({}, {"spark.redaction.regex": "mine"}):
        regex = redacting(conf)["spark.redaction.regex"]
        hits = ("spark.hadoop.fs.s3a.x", "spark.executorEnv.A", "PASSWORD", "http://me:x@h/")
        assert all(re.search(regex, text) for text in hits)
        assert bool(re.search(regex, "of mine")) is bool(conf)
