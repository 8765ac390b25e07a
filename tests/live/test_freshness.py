"""How soon a change can be read, as the product measures it."""

import time
from typing import Any

from tests.live.conftest import PipelineFactory
from tests.live.support.pipeline import Pipeline
from tests.servers import Server

PAUSE_S = 3.0
FILES = """
[[sinks]]
name = "files"
type = "parquet"
path = "files"
"""


def test_changes_are_as_old_as_a_pause_has_made_them(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """In log and further sink when the run continues, in the mirror after a merge; for journal and status alike."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {database}.t VALUES (1)")
    pipeline = new_pipeline(server, database, merge=0.5, more=FILES)
    runner = pipeline.start_streaming()
    pipeline.wait_for(lambda: pipeline.events("source.lag"), runner)
    assert pipeline.events("source.lag")[-1]["mirror_freshness"] is None, "rows of a copy are no changes"
    assert pipeline.command("pause").returncode == 0
    pipeline.wait_for(lambda: pipeline.status()["state"] == "paused", runner)
    committed_s = time.monotonic()
    server.execute(f"INSERT INTO {database}.t VALUES (2), (3)")
    pipeline.wait_for(lambda: time.monotonic() > committed_s + PAUSE_S, runner)
    assert pipeline.command("resume").returncode == 0
    pipeline.wait_for(lambda: _freshest(pipeline)["mirror_freshness"] and _freshest(pipeline)["sink_freshness"], runner)
    most_s = time.monotonic() - committed_s
    log, mirror = (_freshest(pipeline)[name] for name in ("log_freshness", "mirror_freshness"))
    assert PAUSE_S <= log["max"] <= mirror["max"]
    sink = _freshest(pipeline)["sink_freshness"]["files"]
    assert sink["max"] >= PAUSE_S, "as the log: two questions for the end of the binlog date a change"
    assert sink["p50"] <= most_s * 1.06
    assert log["p50"] <= most_s * 1.06, "within the resolution"
    now = pipeline.status()["log"]
    assert (now["log_freshness_s"], now["mirror_freshness_s"]) == (log, mirror)
    shown = pipeline.command("status").stdout
    assert "changes can be read in the change log after" in shown
    pipeline.wait_for(lambda: pipeline.status()["sinks"][0]["freshness_s"], runner)
    ages = f"changes can be read after {sink['p50']:.1f} s (p99 {sink['p99']:.1f} s)"
    assert ages in " ".join(pipeline.command("status").stdout.split())
    assert pipeline.command("stop").returncode == 0
    runner.wait()


def _freshest(pipeline: Pipeline) -> dict[str, Any]:
    """The newest measurement."""
    newest: dict[str, Any] = pipeline.events("source.lag")[-1]
    return newest
