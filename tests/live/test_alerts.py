"""Alerts and metrics of a real run: a healthy run is silent, a fault raises one alert, and its end clears it."""

import json
import socket
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from engine.pipeline.state_machines import CHUNK, START, TABLE
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.servers import Server
from tests.support.depth import on
from tests.support.patience import PATIENCE_S
from tests.support.receiver import Receiver

ROWS = 3000
SETTINGS = """
[alerts]
lag_s = 3600
for_s = 1
webhook_env = "TIDEMARK_TEST_WEBHOOK"
[metrics]
port = {port}
"""
Found = dict[str, dict[tuple[str, ...], float]]


def _counts(**tables: int) -> dict[tuple[str, ...], int]:
    return {(state,): tables.get(state, 0) for state in ("copying", "streaming", "stopped", "removed")}


@on("mariadb")
def test_a_stopped_table_and_a_failed_run_raise_alerts_and_clear_them(
    server: Server, database: str, new_pipeline: PipelineFactory, receiver: Receiver
) -> None:
    """A healthy run sends nothing, and its metrics agree with what it did."""
    _fill(server, database)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    pipeline = new_pipeline(
        server,
        database,
        chunk_rows=300,
        poll=0.2,
        merge=1.0,
        source='schema_changes = "stop"',
        more=SETTINGS.format(port=port),
        environment={"TIDEMARK_TEST_WEBHOOK": receiver.url},
    )
    a, b = f"{database}.a", f"{database}.b"
    runner = pipeline.start()

    def scraped(found: Callable[[Found], Any]) -> None:
        pipeline.wait_for(lambda: found(_scrape(port)), runner)

    pipeline.wait_for(lambda: pipeline.events("run.connected"), runner)
    scraped(lambda now: now["tidemark_tables"] == _counts(streaming=2))
    server.execute(f"UPDATE `{database}`.a SET v = v + 1 WHERE id < 7")
    server.execute(f"DELETE FROM `{database}`.b WHERE id < 5")
    scraped(lambda now: now.get("tidemark_changes_total", {}).get((b, "-D")) == 5)
    scraped(lambda now: now["tidemark_source_lag_bytes"] == {(): 0})
    _check_healthy(_scrape(port), a, b)
    assert receiver.got == []
    assert pipeline.status()["alerts"] == []

    server.execute(f"ALTER TABLE `{database}`.a ADD COLUMN w INT NOT NULL DEFAULT 7")
    pipeline.wait_for(lambda: receiver.got, runner)
    scraped(lambda now: now["tidemark_tables"][("stopped",)] == 1)
    assert _scrape(port)["tidemark_alerts"] == {(a, "table_stopped"): 1}
    (standing,) = pipeline.status()["alerts"]
    assert (standing["kind"], standing["table"]) == ("table_stopped", a)
    assert "redump" in standing["hint"]
    assert a in pipeline.command("status").stdout
    assert pipeline.command("redump", "--table", a).returncode == 0
    pipeline.wait_for(lambda: len(receiver.got) == 2, runner)
    assert _scrape(port)["tidemark_alerts"] == {}
    pipeline.finish(runner)
    assert _notices(receiver.got) == [("alert.raised", "table_stopped", a), ("alert.cleared", "table_stopped", a)]
    assert not [line for line in pipeline.output.splitlines() if line.startswith("{")]
    for message in receiver.got:
        verb = "alert cleared" if message["event"] == "alert.cleared" else "alert"
        assert f"{verb}: {message['message']}" in pipeline.output
    for name in ("a", "b"):
        assert_equal(source_table(server, database, name), pipeline.mirror(name))
    _check_states(pipeline.events())

    with socket.create_server(("127.0.0.1", port)):
        failed = pipeline.command("run", "--until", "caught-up")
    assert failed.returncode == 2
    assert f"127.0.0.1:{port}" in failed.stderr
    assert _notices(receiver.got[2:]) == [("alert.raised", "run_failed", None)]
    assert receiver.got[2]["value"] == 2
    pipeline.run("caught-up")
    assert _notices(receiver.got[3:]) == [("alert.cleared", "run_failed", None)]
    assert pipeline.status()["alerts"] == []


ROUTES = """
[alerts]
for_s = 1
runway_s = 1e12
webhook_env = "TIDEMARK_TEST_WEBHOOK"
[alerts.routes.pager]
type = "pagerduty"
key_env = "TIDEMARK_TEST_KEY"
endpoint = "{url}"
severities = ["critical"]
"""


@pytest.mark.soak
@on("mysql")
def test_a_route_that_is_down_neither_delays_nor_ends_a_run(
    server: Server, database: str, new_pipeline: PipelineFactory, receiver: Receiver
) -> None:
    """The other route says so. A silence holds an alert back, also over a restart; what outlasts it is sent."""
    _fill(server, database)
    for name in ("c", "d"):
        server.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY, d VARCHAR(10))")
    pipeline = new_pipeline(
        server,
        database,
        source='schema_changes = "stop"',
        poll=0.2,
        more=ROUTES.format(url=receiver.url),
        environment={"TIDEMARK_TEST_WEBHOOK": "http://127.0.0.1:9/s3cret", "TIDEMARK_TEST_KEY": "canary-key"},
    )

    def stop(table: str) -> None:
        server.execute(f"ALTER TABLE `{database}`.{table} ADD COLUMN w INT NOT NULL DEFAULT 7")

    def paged(kind: str, table: str | None = None) -> list[str]:
        name = f"{database}.{table}" if table else None
        key = "/".join(part for part in ("tidemark", "shop", kind, name) if part)
        return [event["event_action"] for event in receiver.got if event["dedup_key"] == key]

    runner = pipeline.start_streaming()
    for name in ("a", "b"):
        stop(name)
    pipeline.wait_for(lambda: paged("table_stopped", "a") and paged("table_stopped", "b"), runner)
    pipeline.wait_for(lambda: paged("route_unreachable"), runner)
    silence = ("--for", "1h", "--reason", "planned", "--table", f"{database}.d", "--json")
    (made,) = json.loads(pipeline.command("silence", *silence).stdout)["silences"]
    stop("d")
    pipeline.wait_for(lambda: any(e["table"] == f"{database}.d" for e in pipeline.events("alert.raised")), runner)
    server.execute(f"INSERT INTO `{database}`.c VALUES (1, 'x')")
    pipeline.wait_for(lambda: any(e["tables"].get(f"{database}.c") for e in pipeline.events("epoch.committed")), runner)
    runner.terminate()
    assert runner.wait(timeout=PATIENCE_S) == 1, pipeline.output[-3000:]
    assert_equal(source_table(server, database, "c"), pipeline.mirror("c"))
    (error,) = pipeline.events("error")
    assert (error["error"], error["helper"], "s3cret" in json.dumps(error)) == ("RouteError", "route webhook", False)
    raised = [event["kind"] for event in pipeline.events("alert.raised")]
    assert (raised.count("table_stopped"), raised.count("run_failed")) == (3, 0), "it ended as it was asked to"

    runner = pipeline.start_streaming()
    (seen,) = [one for one in pipeline.status()["alerts"] if one["table"] == f"{database}.d"]
    assert (seen["silenced"]["reason"], seen["silenced"]["id"]) == ("planned", made["id"])
    assert "planned" in pipeline.command("status").stdout
    assert paged("table_stopped", "d") == []
    assert pipeline.command("silence", "--end", made["id"]).returncode == 0
    pipeline.wait_for(lambda: paged("table_stopped", "d") == ["trigger"], runner)
    assert pipeline.command("redump", "--table", f"{database}.d").returncode == 0
    pipeline.wait_for(lambda: paged("table_stopped", "d") == ["trigger", "resolve"], runner)
    runner.terminate()
    assert runner.wait(timeout=PATIENCE_S) == 1, pipeline.output[-3000:]


def _fill(server: Server, database: str) -> None:
    digits = " UNION ALL ".join(f"SELECT {n} AS d" for n in range(10))
    for name in ("a", "b"):
        server.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY, v INT)")
        server.execute(
            f"INSERT INTO `{database}`.{name} SELECT n, n %% 9 FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS "
            f"n FROM ({digits}) a, ({digits}) b, ({digits}) c, ({digits}) e) numbers WHERE n < %s",
            (ROWS,),
        )


def _scrape(port: int) -> Found:
    """Every sample by name, then by label values without the pipeline's.

    First the table, then the other labels by name.
    """
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found: Found = {}
    for metric in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
        assert metric.documentation, metric.name
        found[metric.name] = {}
        for sample in metric.samples:
            assert sample.labels["pipeline"] == "shop"
            names = sorted(sample.labels.keys() - {"pipeline"}, key=lambda name: (name != "table", name))
            found.setdefault(sample.name, {})[tuple(str(sample.labels[name]) for name in names)] = sample.value
    return found


def _check_healthy(now: Found, a: str, b: str) -> None:
    assert now["tidemark_rows_copied_total"] == {(a,): ROWS, (b,): ROWS}
    assert now["tidemark_table_rows"] == {(a,): ROWS, (b,): ROWS}
    assert now["tidemark_chunks"] == now["tidemark_chunks_done"]  # how many is the server's guess: statistics
    assert all(now["tidemark_chunks"][name,] > 5 for name in (a, b))
    assert {k: v for k, v in now["tidemark_changes_total"].items() if v} == {(a, "-U"): 7, (a, "+U"): 7, (b, "-D"): 5}
    assert now["tidemark_run_state"][("running",)] == 1
    assert now["tidemark_phase"][("streaming",)] == 1
    assert now["tidemark_snapshot_completed"] == {(): 1}
    assert now["tidemark_source_lag_seconds"] == {(): 0}
    assert now["tidemark_readers"] == {(): 2}
    assert now["tidemark_readers_busy"] == {(): 0}
    assert now["tidemark_unknown_events"] == {(): 0}
    assert now["tidemark_alerts"] == {}
    assert now["tidemark_epoch"][()] > 0
    assert sum(now["tidemark_position_info"].values()) == 1
    assert now["tidemark_position_offset_bytes"] == now["tidemark_source_position_offset_bytes"]
    assert now["tidemark_sink_applied_epoch"][(a, "append")] > 0


def _check_states(events: Iterable[dict[str, Any]]) -> None:
    """The tables and chunks in the journal of a real run make legal transitions only."""
    tables: dict[str, str] = {}
    chunks: dict[tuple[str, int], str] = {}
    for event in events:
        name = str(event.get("table"))
        if event["event"] == "table.state":
            before = tables.get(name, START)
            assert event["state"] in TABLE.transitions[before].values(), (event, before)
            tables[name] = event["state"]
        elif event["event"] == "table.planned":
            chunks = {at: state for at, state in chunks.items() if at[0] != name}
        elif event["event"] == "chunk.assigned":
            for number in event["chunks"]:
                state = chunks.get((name, number), CHUNK.after(START, "split"))
                chunks[name, number] = CHUNK.after(state, "assigned")
        elif event["event"] == "chunk.finished":
            chunks[name, event["chunk"]] = CHUNK.after(chunks[name, event["chunk"]], "finished")
    assert set(tables.values()) == {"streaming"}
    assert set(chunks.values()) == {"finished"}


def _notices(messages: Iterable[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    return [(message["event"], message["kind"], message["table"]) for message in messages]
