"""The support bundle: what it contains, and what it never contains."""

import json
import zipfile
from pathlib import Path

import pytest

from engine.base.errors import TidemarkError
from engine.base.redaction import Scrubber
from engine.journal import Journal
from engine.journal.events import ChunkRedumped, CommandAccepted, ErrorReported, TablePlanned
from engine.pipeline.directory import Directory
from engine.spec.settings import load
from engine.status.support_bundle import write_bundle

SPEC = """
name = "shop"
[source]
host = "127.0.0.1"
port = 1
user = "tidemark"
password_env = "BUNDLE_PASSWORD"
tables = ["shop.*"]
connect_timeout_s = 1
[alerts]
webhook_env = "BUNDLE_WEBHOOK"
[sink]
type = "delta"
path = "lake"
[spark]
master = "local[1]"
[spark.conf]
"spark.hadoop.fs.s3a.secret.key" = "s3cr3t/of+spark"
"""
SECRETS = {"BUNDLE_PASSWORD": 'pass "word"', "BUNDLE_WEBHOOK": "https://hooks.example/T0/abcdef"}


@pytest.fixture
def spec_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline with a secret and row values in every file."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "pipeline.toml"
    file.write_text(SPEC)
    directory = Directory(tmp_path)
    journal = Journal(directory.journal("r1"), "r1")
    journal.write(TablePlanned(table="shop.t", min="Alice", max="Zoe", chunks=[["Alice", "Bob"]], reason="why"))
    journal.write(CommandAccepted(id="c", verb="redump", what="a range of shop.t", range=["Alice", None]))
    journal.write(CommandAccepted(id="k", verb="redump", what="2 keys of shop.t", keys=["Alice", ["Bob", "1"]]))
    journal.write(ChunkRedumped(id="c", table="shop.t", chunk=0, lower="Alice", upper=None, rows=1, ghosts=0))
    journal.write(
        ErrorReported(error="E", message=f"posting to {SECRETS['BUNDLE_WEBHOOK']} failed", detail="", hint="")
    )
    journal.close()
    directory.log.write_text(f"login with {SECRETS['BUNDLE_PASSWORD']}\nmysql://me:other@db/x\npassword='third'\n")
    refused = directory.inbox / "refused"
    refused.mkdir(parents=True)
    (refused / "c1.json").write_text(json.dumps({"id": "c1", "verb": "redump", "arguments": {"keys": ["Alice"]}}))
    (refused / "c2.json").write_text("no json at all, about Alice")
    return file


def contents(file: Path) -> dict[str, str]:
    """The parts of a bundle."""
    with zipfile.ZipFile(file) as packed:
        return {name: packed.read(name).decode() for name in packed.namelist()}


def test_a_bundle_has_no_secret_and_no_value(spec_file: Path, tmp_path: Path) -> None:
    """From no input: journal, log, spec, Spark settings. A part that fails says so and does not stop the others."""
    made = write_bundle(load(spec_file), spec_file, Directory(tmp_path), tmp_path / "out" / "b.zip")
    found = contents(made.file)
    assert set(found) >= {"README.txt", "versions.json", "spec.toml", "status.json", "check.json", "journal/r1.jsonl"}
    everything = "\n".join(found.values())
    for secret in (*SECRETS.values(), 'pass \\"word\\"', "s3cr3t/of+spark", "me:other", "third", "Alice", "Zoe", "Bob"):
        assert secret not in everything, secret
    assert 'password_env = "BUNDLE_PASSWORD"' in found["spec.toml"], "a reference is no secret"
    assert "could not be made" in found["check.json"], "no server is there"
    assert made.removed >= 5
    assert f"({made.removed} places), and values of rows" in found["README.txt"]
    assert dict(made.parts) == {name: len(text.encode()) for name, text in found.items()}


def test_values_are_kept_when_they_are_wanted(spec_file: Path, tmp_path: Path) -> None:
    """Secrets are still removed."""
    found = contents(
        write_bundle(load(spec_file), spec_file, Directory(tmp_path), tmp_path / "b.zip", with_values=True).file
    )
    assert '"lower": "Alice"' in found["journal/r1.jsonl"]
    assert "Alice" in found["refused/c1.json"]
    assert SECRETS["BUNDLE_WEBHOOK"] not in "\n".join(found.values())


def test_a_bundle_that_cannot_be_written_says_so(spec_file: Path, tmp_path: Path) -> None:
    """Its path is a folder."""
    with pytest.raises(TidemarkError, match="cannot be written"):
        write_bundle(load(spec_file), spec_file, Directory(tmp_path), tmp_path)


def test_a_short_secret_is_removed_where_it_is_a_word() -> None:
    """Replacing it everywhere would leave nothing readable."""
    scrubber = Scrubber(["ab", ""])
    assert scrubber.clean("about ab, (ab)") == "about ***, (***)"
    assert scrubber.removed == 2
