"""A pipeline whose spec cannot be read now."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine import __main__ as _verbs  # noqa: F401 - registers them
from engine.cli.command import app
from engine.cli.known_pipeline import known_pipeline
from engine.journal import Journal
from engine.journal.events import RunStarted
from engine.pipeline.directory import directory_of
from engine.run.commands.heartbeat import Activity, Heartbeat
from engine.spec.settings import load

SPEC = """name = "shop"
[source]
host = "127.0.0.1"
user = "u"
tables = ["s.t"]
[sink]
path = "lake"
"""


@pytest.fixture(params=["shop.toml", "pipeline.toml", "other.toml"])
def spec_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The spec of a pipeline with a live runner."""
    file: Path = tmp_path / request.param
    file.write_text(SPEC)
    where, run = directory_of(file, "shop"), "20260131T153000-aaaaaa"
    where.root.mkdir(exist_ok=True)
    Heartbeat(where, run).beat(Activity(), state="running", reason="", stop=False, helpers=[], commands=[], error=None)
    journal = Journal(where.journal(run), run)
    spec = load(file).model_dump(mode="json")
    journal.write(RunStarted(pipeline="shop", host="h", pid=7, version="1", until=None, spec=spec, format=1))
    journal.close()
    return file


def asked(*words: str) -> Result:
    """The answer of the command line."""
    return CliRunner().invoke(app, words)


@pytest.mark.parametrize("typo", ["tabels = []", "path = [", "type = 'lake'"])
def test_a_typo_hides_no_running_run(spec_file: Path, typo: str) -> None:
    """The status says that the spec cannot be read, and why. The run can be paused and stopped."""
    spec_file.write_text(f"{SPEC}{typo}\n")
    shown = asked("status", str(spec_file))
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert text.startswith("shop: running")
    assert f"The spec cannot be read now, so these are the settings of the newest run. {spec_file} is not" in text
    status = json.loads(asked("status", str(spec_file), "--json").output)
    assert (status["pipeline"], status["state"]) == ("shop", "running")
    assert "is not" in status["spec_fault"]
    for verb in ("pause", "stop"):
        sent = asked(verb, str(spec_file))
        assert sent.exit_code == 0, sent.output
        assert f"{verb} was sent to runner" in sent.output
    spec_file.write_text(SPEC)
    assert json.loads(asked("status", str(spec_file), "--json").output)["spec_fault"] is None


@pytest.mark.parametrize(
    "sink",
    [
        'path = "lake"\ntype = "parquet"',
        'path = "s3://bucket/lake"\nendpoint = "http://localhost:9000"',
        'path = "lake"\n[[sinks]]\nname = "more"\ntype = "parquet"\npath = "files"\n[alerts]\nlag_s = 60',
    ],
)
def test_the_newest_run_knows_every_destination(tmp_path: Path, sink: str) -> None:
    """Its journal has all settings, also those that nobody has set."""
    file = tmp_path / "pipeline.toml"
    file.write_text(SPEC.replace('path = "lake"', sink))
    expected, where = load(file), directory_of(file, "shop")
    journal = Journal(where.journal("r1"), "r1")
    spec = expected.model_dump(mode="json")
    journal.write(RunStarted(pipeline="shop", host="h", pid=7, version="1", until=None, spec=spec, format=1))
    journal.close()
    file.unlink()
    known = known_pipeline(file)
    assert known.fault is not None
    assert (known.spec.sink, known.spec.sinks, known.spec.verify) == (expected.sink, expected.sinks, expected.verify)


def test_without_a_run_the_fault_of_the_spec_is_an_error(tmp_path: Path) -> None:
    """Nobody else knows what the pipeline is."""
    (tmp_path / "shop.toml").write_text("name = 'shop'\nsource =\n")
    assert asked("status", str(tmp_path / "shop.toml")).exit_code == 2
    assert asked("status", str(tmp_path / "none.toml")).exit_code == 2
