"""A source that changes while a pipeline runs: settings, grants, certificate and version, before and after."""

import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.source.connect import Endpoint, open_connection, query
from engine.source.source_facts import Facts, changes, source_facts
from tests.live.conftest import PipelineFactory
from tests.live.support.known_positions import ServerFactory
from tests.servers import PASSWORD, Server, create_user


def test_every_kind_of_fact_is_seen_to_change(flavor: str, private_server: ServerFactory, tmp_path: Path) -> None:
    """A setting, a grant, and the certificate, which costs no statement."""
    server = private_server(flavor, tls=True)
    create_user(server, "watched", ["SELECT ON *.*"])
    before = facts(server, "watched")
    assert changes(before, facts(server, "watched")) == ()
    assert PASSWORD not in str(before)
    assert "IDENTIFIED" not in str(before)
    server.execute("SET GLOBAL sync_binlog = 7")
    server.execute("REVOKE SELECT ON *.* FROM watched")
    server.execute("GRANT SELECT ON shop.* TO watched")
    server.restart(sync_binlog=7, **certificate(tmp_path))
    found = {one.name: (one.what, one.before, one.after) for one in changes(before, facts(server, "watched"))}
    assert found["sync_binlog"][0] == "setting"
    assert found["sync_binlog"][2] == "7"
    assert found["*.*"] == ("grant", "SELECT", "USAGE")
    assert found["`shop`.*"] == ("grant", "none", "SELECT")
    what, old, new = found["certificate"]
    assert what == "certificate"
    assert old.startswith("CN=127.0.0.1, valid until ")
    assert new.startswith("CN=replaced, valid until ")
    assert set(found) == {"sync_binlog", "*.*", "`shop`.*", "certificate", "ssl_cert", "ssl_key"}


def test_a_run_names_what_changed_on_its_source_until_it_is_changed_back(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """In `status`, in the journal, and as an alert, which a required setting does not raise.

    The next run begins afresh.
    """
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    pipeline = new_pipeline(server, "d", poll=0.2, merge=0.5)
    runner = pipeline.start_streaming()

    def of(event: str) -> list[dict[str, Any]]:
        return [one for one in pipeline.events(event) if one["kind"] == "source_changed"]

    def looked_again() -> None:
        """An ALTER makes the run look at once."""
        seen = len(pipeline.events("source.event"))
        server.execute(f"ALTER TABLE d.t ADD COLUMN c{seen} INT")
        pipeline.wait_for(lambda: len(pipeline.events("source.event")) > seen, runner)

    pipeline.wait_for(lambda: pipeline.status()["source"], runner)
    server.execute("SET GLOBAL max_allowed_packet = 33554432")
    looked_again()
    pipeline.wait_for(lambda: of("alert.raised"), runner)
    assert of("alert.raised")[0]["message"] == (
        "The source changed since the run began: max_allowed_packet was 67108864, is 33554432."
    )
    pipeline.wait_for(lambda: (pipeline.status()["source"] or {})["changes"], runner)
    (one,) = pipeline.status()["source"]["changes"]
    assert (one["what"], one["name"], one["before"], one["after"]) == (
        "setting",
        "max_allowed_packet",
        "67108864",
        "33554432",
    )
    text = " ".join(pipeline.command("status").stdout.split())
    assert "the source's setting max_allowed_packet changed" in text
    server.execute("SET GLOBAL max_allowed_packet = 67108864")  # it looks again without an ALTER
    pipeline.wait_for(lambda: of("alert.cleared"), runner)
    server.execute("SET GLOBAL binlog_format = 'MIXED'")
    server.execute("SET GLOBAL sync_binlog = 0")
    looked_again()
    pipeline.wait_for(lambda: len(of("alert.raised")) == 2, runner)
    assert "binlog_format" not in of("alert.raised")[1]["message"]
    assert "sync_binlog was" in of("alert.raised")[1]["message"]
    server.execute("SET GLOBAL binlog_format = 'ROW'")
    pipeline.stop(runner)
    runner = pipeline.start_streaming()
    pipeline.wait_for(lambda: len(of("alert.cleared")) == 2, runner)
    pipeline.finish(runner)


def facts(server: Server, user: str) -> Facts:
    """The facts that this account sees on a new connection."""
    with closing(open_connection(Endpoint(server.host, server.port, user, PASSWORD))) as connection:
        rows = query(connection, "SHOW GLOBAL VARIABLES")
        return source_facts(connection, {row["Variable_name"]: row["Value"] for row in rows})


def certificate(folder: Path) -> dict[str, str]:
    """The options for another certificate, which is made for this."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=replaced"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return {"ssl_cert": str(cert), "ssl_key": str(key)}
