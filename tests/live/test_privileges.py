"""The account loses its privileges while a pipeline runs, and gets them back."""

from typing import Any

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.known_positions import ServerFactory
from tests.servers import USER
from tests.servers.users import GRANTS

ALERTS = "[alerts]\nfor_s = 2\n"


def test_lost_privileges_are_named_and_waited_for(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """`status`, an alert and `check` have the statements; the same run continues once it may, and nothing is lost."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    server.execute("INSERT INTO d.t VALUES (1, 0)")
    pipeline = new_pipeline(server, "d", poll=0.2, merge=0.5, more=ALERTS)
    runner = pipeline.start_streaming()

    server.execute(f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM '{USER}'@'%'")
    server.execute("INSERT INTO d.t VALUES (2, 0)")
    shown: dict[str, Any] = {}

    def alerted() -> bool:
        shown.update(pipeline.status())
        return shown["away"] is not None and "privileges_missing" in {one["kind"] for one in shown["alerts"]}

    pipeline.wait_for(alerted, runner)
    away = shown["away"]
    assert (away["refused"], away["cause"]) == (True, "privileges")
    assert away["gives_up_at"] is not None
    assert away["error"].startswith(f"The account {USER} lacks privileges: ")
    (alert,) = (one for one in shown["alerts"] if one["kind"] == "privileges_missing")
    assert alert["message"].startswith("The account lacks privileges on the source: ")
    words = " ".join(pipeline.command("status").stdout.split())
    assert "the account lacks privileges on the source since" in words
    assert "by itself" in words

    checked = pipeline.command("check")
    assert checked.returncode == 3
    for text in (alert["hint"], " ".join(checked.stdout.split())):
        assert f"GRANT SELECT ON `d`.* TO '{USER}'@'%';" in text
        assert "GRANT REPLICATION SLAVE" in text

    for grant in GRANTS:
        server.execute(f"GRANT {grant} TO '{USER}'@'%'")
    pipeline.wait_for(lambda: pipeline.status()["away"] is None, runner)
    server.execute("INSERT INTO d.t VALUES (3, 0)")
    pipeline.finish(runner)
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))
    assert len(pipeline.events("run.started")) == 1
    assert "privileges_missing" in [one["kind"] for one in pipeline.events("alert.cleared")]
