"""A lake in a bucket: copied, streamed, merged, killed, verified and read, while the store has bad weather."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.explore import read
from engine.spec.settings import load
from tests.live.conftest import PipelineFactory
from tests.live.support.bucket_lake import bad_weather, in_bucket
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import Server
from tests.servers.bucket import CREDENTIALS, BucketServer, bucket_server
from tests.support.delta import rows_at
from tests.support.depth import on
from tests.support.patience import PATIENCE_S
from tests.support.store_faults import Fault, StoreFaults, store_faults

ROWS = 4_000


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketServer]:
    """The store of a test."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with bucket_server(tmp_path / "store") as running:
        yield running


@pytest.fixture
def faults(store: BucketServer) -> Iterator[StoreFaults]:
    """A proxy before the store."""
    with store_faults(store.port) as proxy:
        yield proxy


@on("mysql")
def test_a_lake_is_in_a_bucket(
    server: Server, database: str, new_pipeline: PipelineFactory, store: BucketServer, faults: StoreFaults
) -> None:
    """At the end it equals the source, whatever happened to the runner and to the store."""
    seed_table(server, database, "orders", ROWS)
    pipeline = new_pipeline(
        server, database, chunk_rows=500, merge=1.0, spark='master = "local[2]"', environment=CREDENTIALS
    )
    in_bucket(pipeline, faults)
    checked = pipeline.command("check", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    faults.fault = bad_weather(1)
    runner = pipeline.start_streaming(killed=True)
    with Workload(server, database, "orders", 1, rate=200) as load_:
        pipeline.wait_for(lambda: load_.committed > 300, runner)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        runner = pipeline.start(killed=True)
        pipeline.wait_for(lambda: len(pipeline.events("run.connected")) == 2, runner)
        faults.fault = lambda _method, _path: "503"
        pipeline.wait_for(lambda: _cause(pipeline) == "store_away", runner)
        faults.fault = bad_weather(2)
        pipeline.wait_for(lambda: pipeline.events("store.back"), runner)
    pipeline.finish(runner)
    assert not [event for event in pipeline.events("table.state") if event["state"] == "stopped"]
    assert {"503", "lost"} <= faults.met.keys()
    faults.fault = lambda _method, _path: ""

    expected = source_table(server, database, "orders")
    spec = load(pipeline.spec)
    assert_equal(expected, read(pipeline.spec, f"{database}.orders"))
    rows = rows_at(spec.sink.folder / database / "orders")
    assert rows.num_rows == expected.num_rows
    verified = pipeline.command("verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert [table["verdict"] for table in json.loads(verified.stdout)["tables"]] == ["verified"]
    for verb in ("maintain", "audit"):
        done = pipeline.command(verb)
        assert done.returncode == 0, done.stdout + done.stderr
    assert_equal(expected, read(pipeline.spec, f"{database}.orders"))
    assert not (pipeline.folder / "s3:").exists()


@pytest.mark.soak
@on("mariadb")
def test_a_store_that_cannot_be_used_is_an_outage_of_its_own(
    server: Server, database: str, new_pipeline: PipelineFactory, faults: StoreFaults
) -> None:
    """Away, refusing the credentials, hanging, then away at a start: each is shown, an alert, and over by itself."""
    seed_table(server, database, "orders", 300)
    pipeline = new_pipeline(
        server,
        database,
        poll=0.2,
        merge=0.5,
        spark='master = "local[2]"',
        environment=CREDENTIALS,
        more="[alerts]\nfor_s = 1.0\n",
    )
    in_bucket(pipeline, faults)
    faults.fault = lambda _method, _path: "dropped"
    first = pipeline.command("run")
    assert first.returncode == 3, "it was never reached: the endpoint may be wrong"
    faults.fault = lambda _method, _path: ""
    runner = pipeline.start_streaming()
    outages: tuple[tuple[Fault, str, str], ...] = (
        ("dropped", "store_away", "store away"),
        ("403", "store_refused", "credentials refused"),
        ("hung", "store_away", "store away (probe"),  # long before a request fails
    )
    for number, (fault, cause, words) in enumerate(outages, 1):
        faults.fault = lambda _method, _path, fault=fault: fault  # type: ignore[misc]
        server.execute(f"DELETE FROM {database}.orders WHERE id = {number}")
        _shown(pipeline, runner, cause, words)
        faults.fault = lambda _method, _path: ""
        pipeline.wait_for(lambda n=number: len(pipeline.events("store.back")) == n, runner)  # type: ignore[misc]
        pipeline.wait_for(lambda kind=cause: _cleared(pipeline, kind), runner)  # type: ignore[misc]
    pipeline.finish(runner)
    faults.fault = lambda _method, _path: "dropped"
    runner = pipeline.start()
    server.execute(f"DELETE FROM {database}.orders WHERE id = 4")
    _shown(pipeline, runner, "store_away", "store away")
    pipeline.stop(runner)
    runner = pipeline.start()
    pipeline.wait_for(lambda: len({event["run"] for event in pipeline.events("store.away")}) == 3, runner)
    faults.fault = lambda _method, _path: ""
    pipeline.wait_for(lambda: pipeline.events("store.back")[3:], runner)
    pipeline.finish(runner)
    assert not [event for event in pipeline.events("table.state") if event["state"] == "stopped"]
    raised = {event["kind"] for event in pipeline.events("alert.raised")}
    assert raised == {"run_failed", "store_away", "store_refused"}, "nothing is said of mirrors that nobody can ask"
    expected = source_table(server, database, "orders")
    assert expected.num_rows == 296
    assert_equal(expected, read(pipeline.spec, f"{database}.orders"))


@pytest.mark.soak
def test_a_stop_before_the_store_answers_does_not_hide_a_stopped_table(
    server: Server, database: str, new_pipeline: PipelineFactory, faults: StoreFaults
) -> None:
    """The exit code is that of any other stop: 1, or 0 for a service manager."""
    for name in ("orders", "gone"):
        seed_table(server, database, name, 30)
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.5, spark='master = "local[2]"', environment=CREDENTIALS)
    in_bucket(pipeline, faults)
    runner = pipeline.start_streaming()
    server.execute(f"DROP TABLE {database}.gone")
    pipeline.wait_for(lambda: any(e["state"] == "stopped" for e in pipeline.events("table.state")), runner)
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(timeout=PATIENCE_S) == 1
    faults.fault = lambda _method, _path: "403"
    for options, code in (((), 1), (("--service",), 0)):
        known = _runs_away(pipeline)
        runner = pipeline.start(*options)
        pipeline.wait_for(lambda n=known: _runs_away(pipeline) > n, runner)  # type: ignore[misc]
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(timeout=PATIENCE_S) == code
        ended = pipeline.events("run.ended")[-1]
        assert (ended["outcome"], ended["exit_code"]) == ("stopped", 1)


def _shown(pipeline: Pipeline, runner: Runner, cause: str, words: str) -> None:
    """Wait until an outage is in `status` and has an alert."""
    pipeline.wait_for(lambda: _cause(pipeline) == cause, runner)
    known = len([e for e in pipeline.events("alert.cleared") if e["kind"] == cause])
    pipeline.wait_for(lambda: len([e for e in pipeline.events("alert.raised") if e["kind"] == cause]) > known, runner)
    status = pipeline.status()
    assert (status["write_outage"]["cause"], status["disk_full"]) == (cause, None)
    shown = pipeline.command("status")
    assert shown.returncode == 0, shown.stderr
    said = " ".join(shown.stdout.split())
    assert f": {words}" in said
    assert "no time limit" in said


def _runs_away(pipeline: Pipeline) -> int:
    return len({event["run"] for event in pipeline.events("store.away")})


def _cleared(pipeline: Pipeline, kind: str) -> bool:
    found = [event["event"] for event in pipeline.events("alert.raised", "alert.cleared") if event["kind"] == kind]
    return found[-1:] == ["alert.cleared"]


def _cause(pipeline: Pipeline) -> str | None:
    outage = json.loads((pipeline.home / "runner.json").read_text()).get("write_outage")
    return outage and str(outage["cause"])
