"""Audits of random parts: by the runner in the background, and of any part between two transactions."""

import subprocess
from contextlib import closing, suppress
from functools import partial

import psutil
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from engine.audit import audit
from engine.audit.audit_range import read_history
from engine.audit.audit_sample import sampled
from engine.capture.binlog.position_search import Binlog
from engine.pipeline.directory import directory_of
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.positions import FIRST_OFFSET, Position, binlog_files, current
from engine.spec.settings import load
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import lake_table
from tests.live.support.pipeline import Pipeline
from tests.live.test_audit import IMAGES, shop
from tests.servers import PASSWORD, USER, Server
from tests.support.depth import on

SETTINGS = '[verify]\nperiod = "off"\naudit = "3s"\n'


@pytest.mark.soak
def test_any_part_between_two_transactions_is_equal(
    server: Server, database: str, new_pipeline: PipelineFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a part is looked for, it begins and ends between two transactions, and nothing differs in it."""
    pipeline = shop(server, database, new_pipeline)
    monkeypatch.setenv("TIDEMARK_TEST_PASSWORD", PASSWORD)
    with closing(open_connection(Endpoint(server.host, server.port, USER, PASSWORD))) as connection:
        files, end = list(binlog_files(connection)), current(connection, describe(connection))
        endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
        binlog = Binlog(endpoint, 4_000_000, files, end, server.flavor == "mariadb")
        spec = load(pipeline.spec)
        borders = list(read_history(directory_of(pipeline.spec, spec.name)).bounds)
        assert borders, "each epoch ends at one"
        assert all(binlog.is_between(known) for known in borders)
        for offset in range(max(end.offset - 3000, FIRST_OFFSET), end.offset, 61):
            found = binlog.next_between(Position(end.file, offset))
            assert binlog.is_between(found)
            assert offset <= found.offset <= end.offset
            for known in (*borders, found):
                assert binlog.next_between(Position(end.file, offset), known) == found
                assert binlog.is_between(found, known)
            assert not binlog.is_between(Position(found.file, found.offset - 1), borders[0])
            borders = [*borders[:3], found]
    monkeypatch.setattr(audit, "sampled", partial(sampled, most_bytes=700))
    results = [audit.audit(spec, directory_of(pipeline.spec, spec.name), sample=True) for _ in range(12)]
    assert not any(result.differences_total for result in results)
    assert 0 < max(result.images for result in results) < IMAGES


@pytest.mark.soak
@on("mariadb")
def test_the_runner_audits_in_the_background(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """An audit is recorded.

    A damaged change log raises an alert until it is put right. A paused pipeline is not audited.
    """
    pipeline = shop(server, database, new_pipeline, more=SETTINGS)
    runner = pipeline.start(killed=True)
    pipeline.wait_for(lambda: pipeline.events("audit.done"), runner, 90)
    (first, *_) = pipeline.events("audit.done")
    assert (first["tables"], first["images"], first["differences"]) == (1, IMAGES, 0)
    last = pipeline.status()["last_audit"]
    assert (last["images"], last["differences"]) == (IMAGES, 0)
    assert f"{IMAGES} images of 1 table, no difference" in " ".join(pipeline.command("status").stdout.split())
    assert not pipeline.events("alert.raised")

    kept = lake_table(pipeline.changes("pair"))
    _damage(pipeline)
    pipeline.wait_for(lambda: pipeline.events("alert.raised"), runner, 90)
    (raised,) = pipeline.events("alert.raised")
    assert (raised["kind"], raised["table"]) == ("change_log_differs", f"{database}.pair")
    assert pipeline.events("audit.done")[-1]["differing"] == {f"{database}.pair": 1}

    assert pipeline.command("pause").returncode == 0
    pipeline.wait_for(lambda: pipeline.events("run.state")[-1]["state"] == "paused", runner)
    pipeline.wait_for(lambda: not _audits(pipeline), runner, 10)
    done = len(pipeline.events("audit.done"))
    with pytest.raises(subprocess.TimeoutExpired):
        runner.wait(8)
    assert len(pipeline.events("audit.done")) == done
    assert pipeline.command("resume").returncode == 0
    write_deltalake(str(pipeline.changes("pair")), kept, mode="overwrite")
    pipeline.wait_for(lambda: pipeline.events("alert.cleared"), runner, 150)  # the audit that was ended rests
    pipeline.wait_for(lambda: _audits(pipeline), runner, 60)
    pipeline.stop(runner)
    assert not _audits(pipeline)
    assert not [event for event in pipeline.events("error") if event["helper"] == "audit"]


def _damage(pipeline: Pipeline) -> None:
    """Change a value in the change log."""
    folder = pipeline.changes("pair")
    rows = lake_table(folder).sort_by("_tm_seq")
    chosen = pc.equal(pc.rank(rows["_tm_seq"]), 2)
    values = pc.if_else(chosen, "damaged", rows["b"])
    damaged = rows.set_column(rows.schema.get_field_index("b"), rows.schema.field("b"), values)
    write_deltalake(str(folder), damaged, mode="overwrite")


def _audits(pipeline: Pipeline) -> list[int]:
    """The pids of this pipeline's audits that run now; their priority is the lowest."""
    found, spec = [], str(pipeline.home / "pipeline.toml")
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it ended just now
            words, nice = process.cmdline(), process.nice()
            if "audit" in words and spec in words and words[0] != "nice":
                found.append(process.pid)
                assert nice == 19
    return found
