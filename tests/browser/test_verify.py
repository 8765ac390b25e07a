"""An operator's story.

A light turns red, the rows are looked at side by side, repaired, green again, and the report is kept.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from deltalake import DeltaTable
from playwright.sync_api import Page, expect

from engine.verify.report import check_report
from tests.browser.conftest import OpenPage, healthy
from tests.browser.hands import open_from_navigation, select
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import PASSWORD, Server
from tests.servers.drivers import Drivers
from tests.servers.hosts import Hosts
from tests.tools.demo import console


@pytest.fixture
def pipeline(server: Server, database: str, tmp_path: Path, drivers: Drivers, hosts: Hosts) -> Iterator[Pipeline]:
    """A pipeline with two tables, streaming. MariaDB does not log which orders go with their region."""
    server.execute(f"CREATE TABLE {database}.regions (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {database}.regions VALUES (7)")
    server.execute(
        f"CREATE TABLE {database}.orders (id INT PRIMARY KEY, customer VARCHAR(20), total DECIMAL(10,2), region INT,"
        f" FOREIGN KEY (region) REFERENCES {database}.regions (id) ON DELETE CASCADE)"
    )
    rows = ", ".join(f"({n}, 'customer {n}', {n}.50, {7 if n == 1200 else 'NULL'})" for n in range(2000))
    server.execute(f"INSERT INTO {database}.orders VALUES {rows}")
    made = Pipeline(server, database, tmp_path, chunk_rows=100, merge=1.0, drivers=drivers, hosts=hosts)
    made.start_streaming()
    yield made
    made.kill()


def light(page: Page, words: str) -> None:
    """The fourth light says this."""
    expect(page.get_by_role("heading", name=re.compile(f"Data.*{words}"))).to_be_visible()


@pytest.mark.timeout(600)
def test_rows_that_differ_are_repaired(server: Server, pipeline: Pipeline, open_page: OpenPage) -> None:
    """Rows that are wrong in the mirror.

    Another program deleted and changed some there, and the source changed some without an event.
    """
    cascades = server.flavor == "mariadb"
    differ = 4 if cascades else 3
    with console(pipeline.folder, environment={"TIDEMARK_TEST_PASSWORD": PASSWORD}) as address:
        page = open_page(f"{address}/live?pipeline=shop")
        light(page, "Verified")  # by the runner itself
        DeltaTable(pipeline.mirror("orders")).delete("id = 150")
        DeltaTable(pipeline.mirror("orders")).update(updates={"customer": "'nobody'"}, predicate="id = 1500")
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute(f"UPDATE {pipeline.database}.orders SET total = 1 WHERE id = 700")
        server.execute(f"DELETE FROM {pipeline.database}.regions WHERE id = 7")
        open_from_navigation(page, "Verify", lambda what: what.click())
        page.get_by_role("button", name="Verify all tables").click()
        orders = f"{pipeline.database}.orders"
        outcome = page.get_by_text(re.compile(f"Compared 2k rows of 2 tables at .*: {differ} rows differ in {orders}"))
        expect(outcome).to_be_visible()
        select(page, "Table", orders)
        expect(page.get_by_text(re.compile(r"Missing .* wrote to the mirror: version \d+ \(DELETE"))).to_be_visible()
        expect(page.get_by_role("cell", name="no row").first).to_be_visible()
        for key, kind in {"700": "Different", **({"1200": "Extra"} if cascades else {})}.items():
            select(page, "Row", key)
            expect(page.get_by_text(re.compile(f"{kind} .* without an event in its binlog"))).to_be_visible()
        select(page, "Row", "1500")
        row = page.get_by_role("row").filter(has_text="nobody")
        expect(row).to_contain_text("customer")
        expect(row).to_contain_text("customer 1500")
        open_from_navigation(page, "Live", lambda what: what.click())
        light(page, f"{differ} rows differ")
        expect(page.get_by_text(re.compile(f"{differ} rows of .*orders differ from the source")).first).to_be_visible()
        open_from_navigation(page, "Verify", lambda what: what.click())
        page.get_by_role("button", name=f"Repair {differ} rows").click()
        page.get_by_role("textbox", name="Reason").fill("changed by hand")
        page.get_by_role("button", name="Repair and verify").click()
        expect(page.get_by_text("No row of this table is known to differ.")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download the report").click()
        assert check_report(download.value.path().read_text(encoding="utf-8"))
        open_from_navigation(page, "Live", lambda what: what.click())
        light(page, "Verified")
        healthy(page)
    assert "changed by hand" in [e["reason"] for e in pipeline.events("command.accepted")]
    assert_equal(source_table(server, pipeline.database, "orders"), pipeline.mirror("orders"))
