"""The numbers that the console shows, compared with their sources.

It looks at a pipeline that is paused during its copy, and again after two tables were copied, one under load, and one
redumped. It compares the pages with server (SQL), lake (Parquet, Delta), ledger, process and journal, without its code.
"""

import json
import re
import time
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pyarrow.parquet as pq
import pytest
import streamlit
from deltalake import DeltaTable
from streamlit import config

from app.history.view import compare
from app.history.view.past import past
from engine.base import clock
from engine.explore.queries import MOST_ROWS
from engine.history import History, chunk_queries, runs
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from tests.live.conftest import PipelineFactory
from tests.live.support.binlog_end import BinlogEnd
from tests.live.support.compare import lake_table
from tests.live.support.console import Screen, lasts, offset, says, seconds
from tests.live.support.epochs import redumped, rests
from tests.live.support.pipeline import Pipeline, Runner
from tests.live.support.seed import seed_table
from tests.live.support.workload import Workload
from tests.servers import PASSWORD, Server
from tests.support.depth import on

BUSY, QUIET, ROWS_PER_S, CHUNK_ROWS = 7_000, 4_500, 800, 1000
POSITION = {"mysql": "SHOW BINARY LOG STATUS", "mariadb": "SHOW MASTER STATUS"}


@pytest.fixture
def shop(
    server: Server, database: str, new_pipeline: PipelineFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pipeline]:
    """A pipeline that copies slowly, and a console that shows it."""
    seed_table(server, database, "orders", BUSY)
    seed_table(server, database, "customers", QUIET)
    slow = f"[throttle]\nmax_rows_per_s = {ROWS_PER_S}\n"
    pipeline = new_pipeline(server, database, chunk_rows=CHUNK_ROWS, poll=0.3, merge=1.0, more=slow)
    pipeline.home.mkdir()
    spec = pipeline.spec.read_text().replace('path = "lake"', f'path = "{pipeline.folder}/lake"')
    pipeline.spec = pipeline.home / "pipeline.toml"  # where the console looks for it
    pipeline.spec.write_text(spec)
    monkeypatch.setenv("TIDEMARK_TEST_PASSWORD", PASSWORD)
    monkeypatch.setenv("TIDEMARK_HOME", str(pipeline.folder))
    before = config.get_option("server.address")
    config.set_option("server.address", "127.0.0.1")
    streamlit.cache_resource.clear()
    yield pipeline
    streamlit.cache_resource.clear()
    config.set_option("server.address", before)


def amid_the_copy(pipeline: Pipeline, runner: Runner) -> None:
    """Wait for some chunks and check their rate; then pause, so that nothing changes during the other checks."""
    pipeline.wait_for(lambda: len(reads(pipeline)) >= 5, runner)
    check_pace(pipeline)
    check_limits(
        Screen("live", pipeline="shop", section="Pace"), ROWS_PER_S, "Tables are read no faster than 800 rows/s"
    )
    assert pipeline.command("pause").returncode == 0
    pipeline.wait_for(lambda: (now := read_runner(Directory(pipeline.home))) and now.state == "paused", runner)
    pipeline.wait_for(lambda: (now := read_runner(Directory(pipeline.home))) and not now.reading, runner)
    time.sleep(2.0)  # the console reads journals once per second
    check_copying(partial(Screen, "live", pipeline="shop"), pipeline)
    assert pipeline.command("throttle", "max_rows_per_s=0").returncode == 0
    assert pipeline.command("resume").returncode == 0


def to_rest(pipeline: Pipeline, server: Server, runner: Runner) -> None:
    """Wait until the pipeline has copied, has redumped a table and has published everything."""
    database = pipeline.database
    pipeline.wait_for(lambda: len(streaming(pipeline)) == 2, runner)
    assert pipeline.command("redump", "--table", f"{database}.customers", "--reason", "a test").returncode == 0
    pipeline.wait_for(lambda: [e for e in pipeline.events("command.done") if e["verb"] == "redump"], runner)


@pytest.mark.soak
@on("mariadb")
def test_what_is_shown_is_what_is_there(server: Server, database: str, shop: Pipeline) -> None:
    """Every number on the pages equals its source."""
    runner = shop.start()
    with Workload(server, database, "orders", 5, rate=100):
        amid_the_copy(shop, runner)
        to_rest(shop, server, runner)
    end = BinlogEnd.now(server)
    shop.wait_for(lambda: any(rests(e) and end.is_reached(e) for e in shop.events("source.lag")), runner)
    check_what_rests(server, shop)


def check_what_rests(server: Server, rested: Pipeline) -> None:
    """Check every page."""
    database, pid = rested.database, rested.events("run.started")[-1]["pid"]
    live = partial(Screen, "live", pipeline="shop")
    check_card(Screen("pipelines"), rested)
    check_strip(live(section="Overview"), server, rested, pid)
    check_overview(live(section="Overview"), server, rested)
    check_curves(live(section="Overview"), rested)
    check_chunks(partial(live, section="Chunks"), server, rested)
    check_readers(live(section="Readers"), rested)
    check_watermarks(live(section="Watermarks"), rested)
    check_plan(live(section="Plan"), server, rested)
    check_events(live(section="Events"), rested)
    check_redump(Screen("redump", pipeline="shop", part="Table", table=f"{database}.customers"), rested)
    check_history(Screen("history"), rested)
    check_compared(rested)
    check_explore(Screen("explore", pipeline="shop", table=f"{database}.orders"), server, rested)
    check_bundle(Screen("diagnostics", pipeline="shop"))
    check_new(server, rested)


def streaming(pipeline: Pipeline) -> list[dict[str, Any]]:
    """The `table.state` events that end the copies."""
    return [event for event in pipeline.events("table.state") if event["state"] == "streaming"]


def count(server: Server, database: str, table: str, where: str = "TRUE") -> int:
    """The number of rows in the source."""
    return int(server.execute(f"SELECT COUNT(*) FROM {database}.{table} WHERE {where}")[0][0])


def reads(pipeline: Pipeline, table: str | None = None) -> list[dict[str, Any]]:
    """The journal's finished chunks; this pipeline reads none twice."""
    name = table and f"{pipeline.database}.{table}"
    return [event for event in pipeline.events("chunk.finished") if name is None or event["table"] == name]


def changed(pipeline: Pipeline, table: str) -> int:
    """The number of the source's changes in a change log; redumped rows are none."""
    return int(lake_table(pipeline.changes(table)).num_rows) - redumped(pipeline, f"{pipeline.database}.{table}")


def check_pace(pipeline: Pipeline) -> None:
    """The rows per second of each table in the snapshot: from before the page was rendered to after."""
    before = clock.utc_now()
    lines = Screen("live", pipeline="shop", section="Overview").lines("Table", "Rows/s")
    after, drawn = (
        clock.utc_now(),
        clock.utc_text(before - timedelta(seconds=1.5)),
    )  # the console reads journals once per second
    for table in ("orders", "customers"):
        shown, own = lines[f"{pipeline.database}.{table}"]["Rows/s"], reads(pipeline, table)
        known = sum(read["rows"] for read in own if read["ts"] < drawn)
        if shown == "—" or not own:
            assert not known
            continue
        first = datetime.fromisoformat(min(read["started"] for read in own))
        if (after - first).total_seconds() >= 30:
            continue  # on a slow machine: the rate is that of the last 30 s, so not all chunks count
        least = known / (after - first).total_seconds()
        most = (sum(read["rows"] for read in own) + CHUNK_ROWS) / (before - first).total_seconds()  # one is being read
        rate = float(shown.removesuffix("k")) * (1000 if shown.endswith("k") else 1)
        assert 0.95 * least <= rate <= 1.05 * most


def check_limits(screen: Screen, rows_s: int, sentence: str) -> None:
    """The limit in the form is the one in force."""
    (field,) = [one for one in screen.page.number_input if one.label == "Rows a second"]
    assert field.value == rows_s
    assert sentence in screen.text


def check_copying(live: Any, pipeline: Pipeline) -> None:
    """What is done and what remains, while the pipeline is paused."""
    screen, committed, planned = live(section="Overview"), 0, 0
    lines = screen.lines("Table", "Chunks")
    for table in ("orders", "customers"):
        name = f"{pipeline.database}.{table}"
        parts = [epoch["tables"].get(name, {}) for epoch in pipeline.epochs()]
        published = {chunk["chunk"] for part in parts for chunk in part.get("chunks", [])}
        done = {read["chunk"] for read in reads(pipeline, table)} | published
        of = len({n for e in pipeline.events("table.planned") if e["table"] == name for n in range(len(e["chunks"]))})
        of += len(
            {chunk[0] for e in pipeline.events("chunk.planned") if e["table"] == name for chunk in e["chunks"]}
            - set(range(of))
        )
        shown, known = lines[name]["Chunks"], of
        if "about" in shown:  # the walk over the key was still under way
            of = int(shown.rpartition(" ")[2])
        assert shown.replace("about ", "") == f"{len(done)} of {of}"
        assert lines[name]["Copied"] == pytest.approx(100 * len(done) / of)
        legend = dict(re.findall(r"^[WR!XFP] (\w+) ([\d,]+)$", live(section="Chunks", table=name).text, re.MULTILINE))
        assert int(legend["published"]) == len(published)
        assert int(legend["published"]) + int(legend["finished"]) == len(done)
        assert sum(map(int, legend.values())) == known
        committed, planned = committed + len(done), planned + of
    assert 0 < committed < planned
    done_of, share, state, eta = screen.find(r"rows, (\d+/~?\d+) chunks (\S+); .*State: (\w+); ETA: (.*)")
    assert (done_of.replace("~", ""), state, eta) == (f"{committed}/{planned}", "paused", "—")
    assert float(share.removesuffix("%")) == pytest.approx(100 * committed / planned, abs=0.051)
    says(screen.find(r"Copy: (\S+)/")[0], sum(read["rows"] for read in reads(pipeline)))


def check_strip(screen: Screen, server: Server, pipeline: Pipeline, pid: int) -> None:
    """The three layers and the status line agree with the server's position and settings, the files and the process."""
    file, at = server.execute(POSITION[server.flavor])[0][:2]
    assert [one for one in screen.page.markdown if f"pid {pid}." in one.proto.help]
    assert screen.find(r"lag (\S+ \S+) · (\S+ \S+) +· nothing is waiting") == ("0 s", "0 B")
    if server.flavor == "mysql":
        keeps_s = float(server.execute("SELECT @@binlog_expire_logs_seconds")[0][0])
        lasts(screen.find(r"retention left (.*)")[0], keeps_s)
    else:
        assert "no time limit is known for the binlog of the source" in screen.text
    line = r"Copy: (\S+)/\S+ rows, (\d+)/(\d+) chunks (\S+); Changes: (\S+); Lag: 0s 0B; (\S+); State: (\w+); ETA: (.*)"
    rows, done, of, share, changes, position, state, eta = screen.find(line)
    files = [pipeline.snapshot(table) for table in ("orders", "customers")]
    chunks = sum(len(part.get("chunks", [])) for epoch in pipeline.epochs() for part in epoch["tables"].values())
    says(rows, sum(part.num_rows for part in files))
    assert (done, of, share) == (str(chunks), str(chunks), "100%")
    says(changes, changed(pipeline, "orders") + changed(pipeline, "customers"))
    assert (position, state, eta) == (f"{file}:{at}", "streaming", "copy done")


def check_overview(screen: Screen, server: Server, pipeline: Pipeline) -> None:
    """One line per table."""
    lines = screen.lines("Table", "Chunking")
    for table in ("orders", "customers"):
        name = f"{pipeline.database}.{table}"
        line, (plan,) = lines[name], [e for e in pipeline.events("table.planned") if e["table"] == name]
        rows, of = re.fullmatch(r"(\S+) of about (\S+)", line["Rows"]).groups()  # type: ignore[union-attr]
        says(rows, pipeline.snapshot(table).num_rows)
        says(of, plan["approx_rows"])
        assert line["Chunks"] == f"{len(reads(pipeline, table))} of {len(reads(pipeline, table))}"
        says(line["Changes"], changed(pipeline, table))
        assert (line["Copied"], line["Retrying"], line["Rows/s"]) == (100.0, "", "—")
        assert (line["State"], line["Chunking"]) == ("streaming", plan["strategy"])
    statistics = "SELECT table_rows FROM information_schema.tables WHERE table_schema = %s AND table_name = 'customers'"
    says(
        lines[f"{pipeline.database}.customers"]["Rows"].rpartition(" ")[2],
        server.execute(statistics, (pipeline.database,))[0][0],
    )


def check_curves(screen: Screen, pipeline: Pipeline) -> None:
    """The throughput curves' areas are what was read and committed; the lag curve goes through its measurements."""
    (timeline,) = screen.charts
    rows, changes, *lag = [one for one in timeline["data"] if one.get("mode") == "lines+markers"]
    # All of it is in the five minutes shown, in steps of two seconds.
    assert sum(value or 0 for value in rows["y"]) * 2 == pytest.approx(
        sum(read["rows"] for read in reads(pipeline)), rel=1e-6
    )
    committed = sum(epoch["changes"] for epoch in pipeline.events("epoch.committed")) - redumped(pipeline)
    assert sum(value or 0 for value in changes["y"]) * 2 == pytest.approx(committed, rel=0.02)
    readings = pipeline.events("source.lag")
    for curve, field in zip(lag, ("lag_s", "lag_bytes"), strict=True):
        known = {reading[field] for reading in readings}
        shown = [value for value in curve["y"] if value is not None]
        assert shown
        assert set(shown) <= known
        assert max(shown) == max(value for value in known if value is not None)
    assert len(pipeline.events("run.started")) == 1
    assert "Restarts" not in {one.get("name") for one in timeline["data"]}, "the first start is no restart"


def check_chunks(live: Any, server: Server, pipeline: Pipeline) -> None:
    """The legend, and the details of the chunks with the narrowest and the widest windows; the file is on the disk."""
    for table in ("orders", "customers"):
        name, own = f"{pipeline.database}.{table}", reads(pipeline, table)
        assert live(table=name).find(r"P published (\S+)") == (str(len(own)),)
        pick = max if table == "orders" else min
        chosen = pick(own, key=lambda read: (read["gap_bytes"], read["chunk"]))
        screen = live(table=name, chunk=str(chosen["chunk"]))
        facts, span = screen.facts(), f"{chosen['lower']} ≤ id < {chosen['upper']}"
        assert span.replace("None ≤ ", "").replace(" < None", "") in screen.text
        file = pipeline.mirror(table) / facts["File"]
        assert pq.read_metadata(file).num_rows == int(facts["Rows"].replace(",", ""))
        says(facts["File size"], file.stat().st_size)
        if table == "customers":
            low, high = chosen["lower"] or 0, chosen["upper"] or 1 << 60
            assert count(server, pipeline.database, table, f"id >= {low} AND id < {high}") == int(
                facts["Rows"].replace(",", "")
            )
        assert (facts["Low"], facts["High"]) == (chosen["low"], chosen["high"])
        gap = offset(facts["High"]) - offset(facts["Low"])
        if gap:
            says(facts["Gap"], gap)
        else:
            assert facts["Gap"] == "none: exact snapshot"
        found = chosen["backfill"]
        assert facts["Backfill"].split()[0] == f"{found['changes']:,}"
        says(facts["upserted"], found["upserted"])
        says(facts["deleted"], found["deleted"])
        lasts(facts["Time"], sum(chosen["timings"].values()))
        for label, part in (("reading", "read"), ("backfill", "backfill"), ("writing", "write")):
            lasts(facts[label], chosen["timings"][part])
        assert (facts["Reader"], facts["Attempts"]) == (chosen["reader"], str(chosen["attempt"] + 1))
        epochs = {
            c["chunk"]: e["epoch"] for e in pipeline.epochs() for c in e["tables"].get(name, {}).get("chunks", [])
        }
        assert facts["Published"] == f"in epoch {epochs[chosen['chunk']]}"
        assert facts["Started"] == f"{chosen['started'][:19].replace('T', ' ')} UTC"


def check_readers(screen: Screen, pipeline: Pipeline) -> None:
    """Chunks, rows and time of each reader, the bars, and the cost of a chunk."""
    own, lines = reads(pipeline), screen.lines("Reader", "Busy")
    assert set(lines) == {read["reader"] for read in own}
    (chart,) = screen.charts
    assert sum(len(bars["x"]) for bars in chart["data"]) == len(own)
    assert sum(sum(bars["x"]) for bars in chart["data"]) == pytest.approx(1000 * sum(map(seconds, own)), rel=0.001)
    since, until = (datetime.fromisoformat(f"{at}+00:00") for at in chart["layout"]["xaxis"]["range"])
    for name, line in lines.items():
        mine = [read for read in own if read["reader"] == name]
        assert line["Chunks"] == len(mine)
        says(line["Rows"], sum(read["rows"] for read in mine))
        # A reader has one chunk at a time, so its chunks' times add up.
        busy_s = sum(map(seconds, mine))
        assert line["Busy"] == pytest.approx(100 * busy_s / (until - since).total_seconds(), rel=0.01, abs=0.05)
    heads = ("min", "25 %", "median", "75 %", "max")
    spreads = screen.lines("", *heads)
    for name, values, close in (
        ("Seconds a chunk", [seconds(read) for read in own], lasts),
        ("Rows a chunk", [read["rows"] for read in own], says),
        ("Rows a second", [read["rows"] / seconds(read) for read in own], says),
        ("Watermark gap", [read["gap_bytes"] for read in own], says),
    ):
        five = [min(values), *quantiles(values, n=4, method="inclusive"), max(values)]
        for head, truth in zip(heads, five, strict=True):
            close(spreads[name][head], truth)


def check_watermarks(screen: Screen, pipeline: Pipeline) -> None:
    """The widest windows, from low to high watermark, with their changes."""
    ((bars,),) = (chart["data"] for chart in screen.charts)
    own = {f"{read['table']} {read['chunk']}": read for read in reads(pipeline)}
    widths = sorted((offset(read["high"]) - offset(read["low"]) for read in own.values()), reverse=True)
    assert bars["x"] == widths[:20]
    names = [f"{table} {chunk}" for *_, table, chunk in bars["customdata"]]
    for name, low, width, text in zip(names, bars["base"], bars["x"], bars["text"], strict=True):
        assert (low, low + width) == (offset(own[name]["low"]), offset(own[name]["high"]))
        assert int(text.split()[0].replace(",", "")) == own[name]["backfill"]["changes"]


def check_plan(screen: Screen, server: Server, pipeline: Pipeline) -> None:
    """The plan of a table without writers agrees with the server's own numbers."""
    line = screen.lines("Table", "Factor")[f"{pipeline.database}.customers"]
    low, high = server.execute(f"SELECT MIN(id), MAX(id) FROM {pipeline.database}.customers")[0]
    (plan,) = [e for e in pipeline.events("table.planned") if e["table"] == f"{pipeline.database}.customers"]
    assert (line["Smallest"], line["Largest"], line["Key"]) == (str(low), str(high), "id")
    assert float(line["Factor"]) == pytest.approx((high - low + 1) / plan["approx_rows"], rel=0.001)
    says(line["Rows"], plan["approx_rows"])
    says(line["Rows a chunk"], 1000)
    assert line["Chunks"].split()[0] == str(len(reads(pipeline, "customers")))
    assert f"{pipeline.database}.customers{float(line['Factor']):.4g}" in screen.text, "the figure"


def check_events(screen: Screen, pipeline: Pipeline) -> None:
    """Times, durations and the number of lines."""
    lines = sum(len(path.read_bytes().splitlines()) for path in (pipeline.home / "journal").glob("*.jsonl"))
    shown = int(screen.find(r"([\d,]+) journal lines? read")[0].replace(",", ""))
    assert lines - 5 <= shown <= lines  # a line comes every two seconds
    happened = {line["What"]: line for line in screen.table("Kind", "What").to_dict("records")}
    (accepted,), (done,) = (
        [e for e in pipeline.events(f"command.{what}") if e["verb"] == "redump"] for what in ("accepted", "done")
    )
    command = next(line for what, line in happened.items() if what.startswith("Redump"))
    assert f"{command['Time']:%Y-%m-%dT%H:%M:%S.%f}Z" == accepted["ts"]
    lasts(command["Took"], done["duration_s"])


def check_card(screen: Screen, pipeline: Pipeline) -> None:
    """The list of pipelines shows no rate for a copy that is over."""
    facts = dict(pairwise(line.strip() for line in screen.text.splitlines()))
    assert (facts["Copied"], facts["Lag"], facts["Reading"]) == ("100%", "0 s", "—")
    now, (started,) = clock.utc_now(), pipeline.events("run.started")
    since = max(now - timedelta(seconds=60), datetime.fromisoformat(started["ts"]))
    epochs = pipeline.events("epoch.committed")
    recent = [epoch for epoch in epochs if datetime.fromisoformat(epoch["ts"]) > since]
    committed = sum(epoch["changes"] for epoch in recent) - redumped(pipeline, since=since)
    shown = re.fullmatch(r"([\d.]+)(k?) changes/s", facts["Changes"])
    assert shown
    rate = float(shown[1]) * (1000 if shown[2] else 1)
    assert rate == pytest.approx(committed / (now - since).total_seconds(), rel=0.1)  # it was drawn a moment ago


def check_redump(screen: Screen, pipeline: Pipeline) -> None:
    """The preview of a redump, and its result."""
    line = screen.lines("Table", "Rows in the mirror")[f"{pipeline.database}.customers"]
    mirror = DeltaTable(str(pipeline.mirror("customers")))
    assert (
        line["Rows in the mirror"]
        == line["Rows read again"]
        == f"{lake_table(pipeline.mirror('customers')).num_rows:,}"
    )
    says(line["Size of the mirror"], sum((pipeline.mirror("customers") / f).stat().st_size for f in mirror.file_uris()))
    (past,) = screen.table("Ghosts", "Took").to_dict("records")
    parts = pipeline.events("redump.chunk")
    assert (past["Parts"], past["Rows"], past["Ghosts"]) == (len(parts), QUIET, 0)
    assert (past["State"], past["Reason"]) == ("done", "a test")
    (done,) = [event for event in pipeline.events("command.done") if event["verb"] == "redump"]
    lasts(past["Took"], done["duration_s"])


def check_history(screen: Screen, pipeline: Pipeline) -> None:
    """The run, while it is active."""
    (line,), own = screen.table("Pipeline", "Outcome").to_dict("records"), reads(pipeline)
    assert (line["Rows"], line["Chunks"], line["Errors"]) == (sum(read["rows"] for read in own), len(own), 0)
    assert line["Changes"] == changed(pipeline, "orders") + changed(pipeline, "customers")
    first, last = min(read["started"] for read in own), max(read["ended"] for read in own)
    took_s = (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
    assert line["Rows/s"] == pytest.approx(line["Rows"] / took_s, rel=0.01)
    began = datetime.fromisoformat(pipeline.events("run.started")[0]["ts"])
    lasts(line["Duration"], (clock.utc_now() - began).total_seconds(), passed_s=2.0)


def check_compared(pipeline: Pipeline) -> None:
    """What History shows of a run that is selected for comparison."""
    index = History(None)
    index.refresh([Directory(pipeline.home)])
    cursor, own = index.cursor(), reads(pipeline)
    lines = past(runs.runs(cursor), runs.run_totals(cursor), {"shop"}, clock.utc_now())
    measured = compare.measures(lines, {line.run: chunk_queries.reads(cursor, "shop", line.run) for line in lines})
    ((_, measures),) = {tuple(row)[1]: {one[""]: one[tuple(row)[1]] for one in measured} for row in measured}.items()
    says(measures["Rows"], sum(read["rows"] for read in own))
    assert (measures["Chunks"], measures["Readers"]) == (str(len(own)), str(len({read["reader"] for read in own})))
    says(measures["Changes"], changed(pipeline, "orders") + changed(pipeline, "customers"))
    lasts(measures["Seconds a chunk, median"], median(map(seconds, own)))
    lasts(measures["Seconds a chunk, most"], max(map(seconds, own)))
    says(measures["Rows a chunk, median"], median(read["rows"] for read in own))
    says(measures["Watermark gap, most"], max(read["gap_bytes"] for read in own))
    index.close()


def check_explore(screen: Screen, server: Server, pipeline: Pipeline) -> None:
    """Explore answers from the lake, and the lake equals the source."""
    screen.page.text_area(key="sql").set_value(f"SELECT count(*) AS n FROM {pipeline.database}.orders")
    screen.press("run")
    assert screen.table("n")["n"].to_list() == [count(server, pipeline.database, "orders")]
    log = lake_table(pipeline.changes("orders"))
    key = log["id"].to_pylist()[-1]
    asked = partial(Screen, "explore", pipeline="shop", table=f"{pipeline.database}.orders")
    screen = asked(way="One key through time")
    screen.page.text_input(key="key-0").set_value(str(key)).run()
    screen.press("by-key")
    there = count(server, pipeline.database, "orders", f"id = {key}")
    assert len(screen.table("_tm_kind")) == log["id"].to_pylist().count(key) + there
    screen = asked(way="As the source was at")
    (until,) = screen.find(r"Known from .* to \S+ (\S+) UTC, by the source's clock")
    (field,) = [one for one in screen.page.text_input if one.label == "Time (UTC)"]
    field.set_value(until).run()
    screen.press("by-time")
    assert len(screen.table("id", "sku")) == min(count(server, pipeline.database, "orders"), MOST_ROWS)


def check_bundle(screen: Screen) -> None:
    """The sizes of the bundle and of its parts; the password is not in it."""
    screen.press("make")
    _, _, data, _ = screen.page.session_state["bundle"]
    with zipfile.ZipFile(BytesIO(data)) as file:
        parts = {info.filename: info.file_size for info in file.infolist()}
        assert not any(PASSWORD.encode() in file.read(name) for name in parts)
    says(screen.find(r"\.zip (\S+ \S+); ")[0], len(data))
    lines = screen.lines("Part", "Size")
    assert set(lines) == set(parts)
    for name, size in parts.items():
        says(lines[name]["Size"], size)


def check_new(server: Server, pipeline: Pipeline) -> None:
    """A new pipeline's plan equals the plan that the old pipeline executed."""
    draft = {"name": "next", "source": {"host": server.host, "port": server.port, "user": "tidemark"}}
    draft["source"] |= {"password_env": "TIDEMARK_TEST_PASSWORD", "tables": [f"{pipeline.database}.*"]}  # type: ignore[operator]
    draft |= {"snapshot": {"chunk_rows": 1000}, "sink": {"type": "delta", "path": "lake"}}
    folder = Path(pipeline.folder) / ".drafts"
    folder.mkdir()
    kept = {"id": "0000abcd", "spec": draft, "connection": "", "step": "Plan", "found": {}, "changed": clock.utc_text()}
    (folder / "0000abcd.json").write_text(json.dumps(kept))
    screen = Screen("new", draft="0000abcd", step="Plan")
    screen.wait_for("Planned ")
    line = screen.lines("Table", "Strategy")[f"{pipeline.database}.customers"]
    assert str(line["Chunks"]).split()[0] == str(len(reads(pipeline, "customers")))
    statistics = """SELECT table_rows, data_length FROM information_schema.tables
                    WHERE table_schema = %s AND table_name = 'customers'"""
    rows, size = server.execute(statistics, (pipeline.database,))[0]
    says(line["Rows"], rows)
    says(line["Size"], size)
    screen = Screen("new", draft="0000abcd", step="Tables")
    screen.wait_for(" of 2 tables · ")
    ((database, tables),) = screen.component("table_tree")["databases"]
    assert database == pipeline.database
    name, taken, seen, length = next(one[:4] for one in tables if one[0] == "customers")
    assert (name, taken, length) == ("customers", 1, size)
    assert seen == pytest.approx(rows, rel=0.02)  # the server's view keeps an older estimate for a day
