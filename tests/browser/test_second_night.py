"""The second night: the account, locks, tables that come and go, impossible dates, and a stop on purpose.

The pages tell the truth within three seconds, and the buttons beside it end what is wrong.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from engine.pipeline.command_file import send_command
from tests.browser.conftest import OpenPage
from tests.browser.night import SHOWN_S, Night, night_on
from tests.live.support.known_positions import ServerFactory
from tests.servers import PASSWORD, USER
from tests.servers.drivers import Driver
from tests.servers.users import GRANTS
from tests.support.depth import on

HEALTHY = {
    "Pipelines": {"^running$": "green"},
    "Live": {"^Running$": "green", "^Keeping up$": "green", "^Safe$": "green"},
    "Table": {"^Streaming$": "green", "^Up to date$": "green"},
}
REFUSED = {
    "Pipelines": {"^login refused$": "red"},
    "Live": {
        "^Login refused$": "red",
        "^Not current$": "",
        r"Login refused for .* · attempt \d+ · ": "red",
        "When the source accepts the login, the run continues": "",
    },
    "Table": {"^Not current$": "", "Access denied": ""},
    "Verify": {"Access denied": ""},
    "Alerts": {"^Login refused$": "red"},
}
LACKING = {
    "Pipelines": {"^privileges missing$": "red"},
    "Live": {"^Privileges missing$": "red", "GRANT SELECT ON `d`": "red"},
    "Table": {"^Not current$": "", "GRANT SELECT ON `d`": ""},
    "Verify": {"GRANT SELECT ON `d`": ""},
    "Alerts": {"^Privileges missing$": "red"},
}
APPEARED = {
    "Live": {"1 table appeared on the source: d.later": ""},
    "Alerts": {"^New tables$": "orange"},
}
DROPPED = {
    "Pipelines": {"^table stopped$": "red", "d.later: .*dropped": ""},
    "Live": {"^1 table stopped$": "red", "d.later was dropped": "red"},
    "Alerts": {"^Table stopped$": "red"},
}
NO_DATE = {
    "Pipelines": {"^table stopped$": "red", "d.audit": ""},
    "Live": {"^1 table stopped$": "red", "the date 0000-00-00 does not exist": "red"},
    "Table": {"^Stopped$": "red", "the date 0000-00-00 does not exist": ""},
    "Alerts": {"^Table stopped$": "red"},
}
BLOCKED = {
    "Live": {"Reads of d.orders have waited": "", "LOCK TABLES d.orders WRITE|holds it|may hold it": ""},
    "Alerts": {"^Read blocked$": "orange"},
}
ENDED = {
    "Pipelines": {"^stopped$": ""},
    "Live": {"^Stopped$": "", "^Not current$": "gray"},
}


@pytest.fixture
def night(
    flavor: str, private_server: ServerFactory, tmp_path: Path, driver: Driver, open_page: OpenPage
) -> Iterator[Night]:
    """A pipeline that captures two tables, and no later ones, on a server of its own."""
    source = private_server(flavor, binlog_expire_logs_seconds=864_000)
    source.execute("CREATE DATABASE d")
    source.execute("CREATE TABLE d.audit (id INT PRIMARY KEY, v INT, day DATE)")
    source.execute("CREATE TABLE d.orders (id INT PRIMARY KEY, v INT)")
    source.execute("INSERT INTO d.audit VALUES (1, 1, '2026-01-01'), (2, 2, NULL)")
    source.execute("INSERT INTO d.orders VALUES (1, 1), (2, 2)")
    with night_on(source, tmp_path, driver, open_page, tables=2, settings='new_tables = "ignore"') as night:
        yield night


@on("mariadb")
@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_second_night(night: Night) -> None:
    """At each instant the pages agree with the truth: nothing green is wrong, and nothing red is right."""
    night.shows("healthy", HEALTHY, time.monotonic() + 3)
    refuse_the_login(night)
    miss_privileges(night)
    add_a_table(night)
    drop_a_table(night)
    enter_an_impossible_date(night)
    block_a_read(night)
    stop_on_purpose(night)
    assert not night.alerts()


def refuse_the_login(night: Night) -> None:
    """The account's password changes: the source answers, so it is not away; somebody must act."""
    with shut_out(night, f"ALTER USER '{USER}'@'%' IDENTIFIED BY 'other'"):
        night.shows("login refused", REFUSED, night.wait_for(lambda: "login_refused" in night.alerts()))
        night.server.execute(f"ALTER USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'")
    night.shows("login accepted", HEALTHY, night.wait_for(lambda: not night.alerts()))


def miss_privileges(night: Night) -> None:
    """The account loses its privileges: the pages have the grants to copy."""
    with shut_out(night, f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM '{USER}'@'%'"):
        night.shows("privileges missing", LACKING, night.wait_for(lambda: "privileges_missing" in night.alerts()))
        for grant in GRANTS:
            night.server.execute(f"GRANT {grant} TO '{USER}'@'%'")
    night.shows("privileges granted", HEALTHY, night.wait_for(lambda: not night.alerts()))


@contextmanager
def shut_out(night: Night, statement: str) -> Iterator[None]:
    """The account cannot work from a statement on, which concerns new connections; it can at the end of the block."""
    night.account = False
    night.server.execute(statement)
    connections = night.server.execute(f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{USER}'")
    for (connection,) in connections:
        with suppress(pymysql.Error):  # it may have ended
            night.server.execute(f"KILL {connection}")
    yield
    night.wait_for(lambda: not {"login_refused", "privileges_missing"} & night.alerts())
    night.account = True


def add_a_table(night: Night) -> None:
    """A table appears that the spec selects and the setting ignores: Live names it and adds it."""
    night.server.execute("CREATE TABLE d.later (id INT PRIMARY KEY, v INT)")
    night.shows("table appeared", APPEARED, night.wait_for(lambda: "new_tables" in night.alerts()))
    night.pages["Live"].get_by_role("button", name="Add", exact=False).first.click()
    since_s = night.wait_for(lambda: night.streams(3) and not night.alerts())
    night.shows("table added", HEALTHY, since_s)


def drop_a_table(night: Night) -> None:
    """A captured table is dropped: it stops, and *Remove* ends that."""
    night.server.execute("DROP TABLE d.later")
    night.shows("table dropped", DROPPED, night.wait_for(lambda: "table_stopped" in night.alerts()))
    press(night, "Live", "Remove", "Remove table")
    night.shows("table removed", HEALTHY, night.wait_for(lambda: not night.alerts()))


def enter_an_impossible_date(night: Night) -> None:
    """A row cannot be represented: its table stops until the row is corrected and *Resnapshot* is pressed."""
    with root(night) as execute:
        execute("SET sql_mode = ''")
        execute("INSERT INTO d.audit VALUES (3, 3, '0000-00-00')")
        night.shows("impossible date", NO_DATE, night.wait_for(lambda: "table_stopped" in night.alerts()))
        execute("UPDATE d.audit SET day = NULL WHERE id = 3")
    press(night, "Table", "Resnapshot", "Resnapshot table")
    night.shows("date corrected", HEALTHY, night.wait_for(lambda: not night.alerts()))


def block_a_read(night: Night) -> None:
    """Somebody locks a table that is being read: the pages say who."""
    with root(night) as execute:
        execute("LOCK TABLES d.orders WRITE")
        send_command(night.where, "redump", arguments={"tables": ["d.orders"]})
        night.shows("read blocked", BLOCKED, night.wait_for(lambda: "read_blocked" in night.alerts()))
    night.shows("lock released", HEALTHY, night.wait_for(lambda: not night.alerts()))


def stop_on_purpose(night: Night) -> None:
    """A run that an operator stops has not failed, and nothing is red."""
    runner = night.runner
    send_command(night.where, "stop")
    since_s = night.wait_for(lambda: not runner.is_running())
    night.shows("stopped on purpose", ENDED, since_s)
    night.wait_for(lambda: not _alarming(night))


def _alarming(night: Night) -> list[tuple[str, str]]:
    """The red and orange texts, by page. The page that `shows` does not look at may be a few seconds old."""
    return [(name, text) for name in night.pages for colour, text in night.texts(name) if colour in ("red", "orange")]


def press(night: Night, page: str, button: str, confirmation: str) -> None:
    """Press a button, and the one that confirms it."""
    for name in (button, confirmation):
        night.pages[page].get_by_role("button", name=name, exact=True).first.click(timeout=SHOWN_S * 10_000)


@contextmanager
def root(night: Night) -> Iterator[Any]:
    """A session of an administrator, which executes statements."""
    connection = pymysql.connect(host="127.0.0.1", port=night.server.port, user="root", autocommit=True)
    with closing(connection), connection.cursor() as cursor:
        yield cursor.execute
