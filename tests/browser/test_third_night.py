"""The third night: the files of all mirrors are gone when a run starts.

The start is refused, no page calls a row verified, and the button beside the error brings the tables back.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from engine.pipeline.command_file import send_command
from engine.pipeline.runner_file import read_runner
from tests.browser.conftest import OpenPage
from tests.browser.night import Night, night_on
from tests.live.support.known_positions import ServerFactory
from tests.servers.drivers import Driver
from tests.support.depth import on

HEALTHY = {
    "Pipelines": {"^running$": "green"},
    "Live": {"^Running$": "green", "^Keeping up$": "green"},
    "Table": {"^Streaming$": "green", "^Up to date$": "green"},
}
REFUSED = {
    "Pipelines": {"^failed$": "red", "The destination is not what the ledger has published, for 2 tables": ""},
    "Live": {"The destination is not what the ledger has published, for 2 tables": "", "^Not verified$": "gray"},
    "Table": {"^Not verified$": "gray", "its destination is not what the ledger has published": ""},
    "Verify": {"^Not verified$": "gray", "destination is not what the ledger has published": ""},
    "Alerts": {"^Run failed$": "red"},
}
_BOUND_S = 6.0
"""The pages read the ledger every three seconds."""


@pytest.fixture
def night(
    flavor: str, private_server: ServerFactory, tmp_path: Path, driver: Driver, open_page: OpenPage
) -> Iterator[Night]:
    """A pipeline with two tables."""
    source = private_server(flavor, binlog_expire_logs_seconds=864_000)
    source.execute("CREATE DATABASE d")
    for name in ("audit", "orders"):
        source.execute(f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT)")
        source.execute(f"INSERT INTO d.{name} VALUES (1, 1), (2, 2)")
    with night_on(source, tmp_path, driver, open_page, tables=2, settings="") as night:
        yield night


@on("mariadb")
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_third_night(night: Night) -> None:
    """Before and after, the rows are verified; in between, they are not, whatever was compared before."""
    night.wait_for(lambda: any(text == "Verified" for _, text in night.texts("Verify")))
    runner = night.runner
    send_command(night.where, "stop")
    night.wait_for(lambda: not runner.is_running())
    for name in ("audit", "orders"):
        for file in DeltaTable(str(night.where.root / "lake" / "d" / name)).file_uris():
            Path(file).unlink()
    press(night, "Restart")
    since_s = night.wait_for(lambda: has_failed(night))
    night.shows("start refused", REFUSED, since_s, _BOUND_S)
    for name in night.pages:
        assert not [text for _, text in night.texts(name) if text == "Verified"], name
    press(night, "Resnapshot 2 tables")
    press(night, "Resnapshot and start")
    night.shows("resnapshotted", HEALTHY, night.wait_for(lambda: streams_again(night)), _BOUND_S)
    night.wait_for(lambda: not night.alerts())


def has_failed(night: Night) -> bool:
    """Whether the newest run has ended with an error."""
    record = read_runner(night.where)
    return record is not None and not record.alive and record.error is not None


def streams_again(night: Night) -> bool:
    """Whether both tables stream in the newest run."""
    record = read_runner(night.where)
    if record is None or not record.alive:
        return False
    states = [one for one in night.events("table.state") if one["run"] == record.run and one["state"] == "streaming"]
    return len(states) == 2


def press(night: Night, button: str) -> None:
    """Press a button of the page Live."""
    night.pages["Live"].get_by_role("button", name=button, exact=True).first.click()
