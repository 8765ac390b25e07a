"""Nobody takes 0 rows of a table that is not copied for the truth."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.base.errors import ErrorRecord
from engine.cli import published as _verbs  # noqa: F401 - registers them
from engine.cli.command import app
from engine.explore import read
from engine.explore.copy_notices import copy_notice, copy_notices
from engine.ledger.state import TableState
from engine.pipeline.directory import Directory
from engine.plan.chunks import WHOLE, Range
from engine.plan.coverage import Coverage, Unsplit
from tests.unit.destination.support import OLD, PLAN, SPEC, WHOLE_SPLIT, World, publish_story

REST = (Unsplit(3, Range(("5",), None), "walk"),)
BEGUN = TableState({}, {"estimated_chunks": 12}, Coverage(unsplit=REST))
HALF = replace(BEGUN, coverage=Coverage(runs=(Range(None, ("5",)),), finished=((0, 2),), unsplit=REST))
COPIED = replace(BEGUN, coverage=Coverage(runs=(WHOLE,), finished=((0, 11),)))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (COPIED, ""),
        (BEGUN, "d.t is not copied yet: no chunk is copied yet. Its mirror lacks rows until all are."),
        (HALF, "d.t is not copied yet: 3 of about 12 chunks are copied. Its mirror lacks rows until all are."),
        (replace(HALF, stopped=ErrorRecord(message="m")), "d.t stopped before it was copied: 3 of about 12"),
        (replace(HALF, generation=1), "Until that is complete, its mirror is as it was before."),
    ],
)
def test_a_notice_says_how_far_the_copy_is(table: TableState, words: str) -> None:
    """And which part of the destination is not complete."""
    notice = copy_notice("d.t", table)
    assert words in notice
    assert bool(words) == bool(notice)
    assert ("change log" in copy_notice("d.t__changes", table, changes=True)) == bool(words)


def test_a_read_of_a_table_that_is_not_copied_says_so(tmp_path: Path) -> None:
    """Beside the data, not in it. Nothing is said once it is copied."""
    where, spec = Directory(tmp_path), tmp_path / "pipeline.toml"
    spec.write_text(SPEC)
    world = World(tmp_path)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    publish_story(world, tmp_path, ())
    asked = CliRunner().invoke(app, ["read", str(spec), "d.t"])
    assert (asked.exit_code, len(asked.stdout.splitlines())) == (0, 1)
    (notice,) = copy_notices(where, ["d.t", "d.unknown"])
    assert " ".join(asked.stderr.split()) == notice
    with pytest.warns(UserWarning, match=r"d\.t is not copied yet: no chunk is copied yet"):
        assert read(spec, "d.t").num_rows == 0
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1)])], copied=True)
    publish_story(world, tmp_path, (), 1)
    asked = CliRunner().invoke(app, ["read", str(spec), "d.t"])
    assert (asked.exit_code, asked.stderr, len(asked.stdout.splitlines())) == (0, "", 2)
    assert read(spec, "d.t").num_rows == 1
