"""A pipeline registers its tables in a catalog. One that is away, or waits for a lock, delays its own readers alone."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import seed_table
from tests.servers import Server
from tests.servers.rest_catalog import rest_server
from tests.support.delta import rows_at
from tests.support.depth import depth


@dataclass
class TestCatalog:
    """A catalog of a test."""

    __test__ = False
    kind: str
    uri: str
    block: Callable[[], object]
    """Let it answer no more."""
    unblock: Callable[[], object]

    @property
    def section(self) -> str:
        """The settings."""
        return f'[sink.catalog]\nnamespace = "raw_{{database}}"\ntype = "{self.kind}"\nuri = "{self.uri}"\n'

    def opened(self) -> Catalog:
        """As pyiceberg opens it."""
        return load_catalog("default", type=self.kind, uri=self.uri)


@contextmanager
def _catalog(kind: str, server: Server, database: str, folder: Path) -> Iterator[TestCatalog]:
    """REST: of its own process. SQL: a database of the source, whose table can be locked."""
    if kind == "rest":
        with rest_server(folder) as rest:
            yield TestCatalog(kind, rest.url, rest.stop, rest.start)
        return
    name = f"{database}_lakes"
    server.execute(f"CREATE DATABASE {name}")
    with closing(server.connect(database=name)) as session, session.cursor() as cursor:
        uri = f"mysql+pymysql://root@127.0.0.1:{server.port}/{name}"
        lock = "LOCK TABLES iceberg_tables WRITE"
        yield TestCatalog(kind, uri, lambda: cursor.execute(lock), lambda: cursor.execute("UNLOCK TABLES"))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["rest", "sql"])
def test_a_pipeline_registers_its_tables(
    server: Server, database: str, new_pipeline: PipelineFactory, tmp_path: Path, kind: str
) -> None:
    """Mirrors and change logs, through kills and changes of columns, and while the catalog is away."""
    if kind != depth({"mysql": "rest", "mariadb": "sql"}[server.flavor], kind):
        pytest.skip("in `make soak`")
    for name in ("orders", "kept"):
        seed_table(server, database, name, 300)
    with _catalog(kind, server, database, tmp_path) as catalog:
        settings = f'formats = ["delta", "iceberg"]\nfiles_retention = "1s"\n{catalog.section}'
        pipeline = new_pipeline(server, database, chunk_rows=100, merge=0.3, poll=0.2, sink=settings)
        check = pipeline.command("check", "--json")
        assert check.returncode == 0, check.stdout
        assert [one["outcome"] for one in json.loads(check.stdout)["checks"] if one["name"] == "catalog"] == ["ok"]
        runner = pipeline.start_streaming()
        server.execute(f"UPDATE {database}.orders SET quantity = 1 WHERE id % 3 = 0")
        runner.kill()
        runner.wait()
        runner = pipeline.start_streaming()
        server.execute(f"ALTER TABLE {database}.orders ADD COLUMN added INT DEFAULT 7")
        server.execute(f"UPDATE {database}.orders SET quantity = 2 WHERE id % 5 = 0")
        pipeline.finish(runner)
        _assert_registered(pipeline, server, database, catalog.opened())
        statements = json.loads(pipeline.command("catalog", "--json", "--engine", "trino").stdout)
        assert any(f'"raw_{database}"."orders__changes"' in one["text"] for one in statements)
        _assert_goes_on(pipeline, server, database, catalog)


def _assert_registered(pipeline: Pipeline, server: Server, database: str, catalog: Catalog) -> None:
    mirror = catalog.load_table(f"raw_{database}.orders").scan().to_arrow()
    source = source_table(server, database, "orders")
    assert mirror.num_rows == 300
    assert_equal(source, mirror.select(source.column_names))
    changes = catalog.load_table(f"raw_{database}.orders__changes").scan().to_arrow()
    assert changes.num_rows == rows_at(pipeline.changes("orders")).num_rows


def _assert_goes_on(pipeline: Pipeline, server: Server, database: str, catalog: TestCatalog) -> None:
    """Changes, maintenance and a dropped table, while the catalog is away; it is told of all when it is back."""

    def names() -> set[str]:
        with suppress(NoSuchNamespaceError):  # it has none while its last table is registered again
            return {name for _, name in catalog.opened().list_tables(f"raw_{database}")}
        return set()

    runner = pipeline.start_streaming()
    catalog.block()
    assert pipeline.command("maintain").returncode == 0
    server.execute(f"UPDATE {database}.kept SET quantity = 3")
    pipeline.wait_for(lambda: set(rows_at(pipeline.mirror("kept"))["quantity"].to_pylist()) == {3}, runner)
    assert pipeline.command("remove-table", "--table", f"{database}.orders", "--drop").returncode == 0
    pipeline.wait_for(lambda: not pipeline.mirror("orders").exists(), runner)
    pipeline.wait_for(lambda: any(a["kind"] == "format_behind" for a in pipeline.status()["alerts"]), runner)
    catalog.unblock()
    pipeline.wait_for(lambda: names() == {"kept", "kept__changes"}, runner)
    pipeline.finish(runner)
    kept = catalog.opened().load_table(f"raw_{database}.kept").scan().to_arrow()
    assert kept["quantity"].unique().to_pylist() == [3]
