"""Folders of the inbox that belong to another user: no command is lost, and everyone learns whose they are."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.base.errors import HelperError
from engine.journal import Journal
from engine.pipeline.command_file import send_command
from engine.pipeline.command_queue import withdraw
from engine.pipeline.directory import Directory
from engine.pipeline.inbox_access import unwritable
from engine.run.commands.control import ControlOptions, control_of
from engine.run.lifecycle.inbox_check import check_inbox

NOBODY = 65_534


@pytest.fixture
def owned() -> Iterator[Directory]:
    """A pipeline's directory of the user nobody, below folders that everyone may enter."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="tidemark-inbox-"))
    (folder / "shop").mkdir()
    folder.chmod(0o755)
    os.chown(folder / "shop", NOBODY, NOBODY)
    yield Directory(folder / "shop")
    shutil.rmtree(folder)


@contextmanager
def _nobody() -> Iterator[None]:
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_what_root_makes_belongs_to_the_pipelines_owner(owned: Directory) -> None:
    """A command and a withdrawal by root leave folders in which the runner can write."""
    identity = send_command(owned, "redump", arguments={"tables": ["d.t"]})
    withdraw(owned, identity)
    assert {path.stat().st_uid for path in (owned.inbox, *owned.inbox.glob("*/"))} == {NOBODY}
    assert (owned.inbox / "claims").is_dir()
    with _nobody():
        assert unwritable(owned.inbox) is None


@pytest.mark.parametrize("name", ["", "claims", "done", "refused", "withdrawn"])
def test_commands_wait_while_a_folder_belongs_to_another_user(owned: Directory, name: str) -> None:
    """None is refused.

    The run's error and `check` name the folder, its owner and the remedy; then the command is carried out.
    """
    identity = send_command(owned, "throttle", arguments={"max_rows_per_s": 5})
    folder = owned.inbox / name
    folder.mkdir(exist_ok=True)
    os.chown(folder, 0, 0)
    with _nobody():
        journal = Journal(owned.journal("r"), "r")
        control = control_of(owned, journal, ControlOptions("shop"))
        with pytest.raises(HelperError) as raised:
            control.intake.poll()
        error, found = raised.value, check_inbox(owned.inbox)
        assert f"The folder {folder} belongs to root" in error.message
        assert f"sudo chown -R USER {owned.inbox}" in error.hint
        assert (found.outcome, found.fix) == ("fail", error.hint)
        assert error.message.startswith(found.actual)
        control.helpers.failed("inbox", error)
        assert control.helpers.as_list()[0]["message"] == error.message
        with pytest.raises(HelperError, match="belongs to root"):
            withdraw(owned, identity)
    os.chown(folder, NOBODY, NOBODY)  # what the hint says
    with _nobody():
        control.intake.poll()
        assert (owned.inbox / "done" / f"{identity}.json").exists()
        assert check_inbox(owned.inbox).outcome == "ok"
        journal.close()


def test_a_command_of_a_user_who_may_not_send_it_is_refused_with_the_remedy(owned: Directory) -> None:
    """Instead of a traceback."""
    owned.inbox.mkdir()
    with _nobody(), pytest.raises(HelperError, match="belongs to root") as raised:
        send_command(owned, "stop")
    assert raised.value.detail == "The command was not sent."
