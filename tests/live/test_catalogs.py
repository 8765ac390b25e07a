"""Tables are registered in Iceberg catalogs: Iceberg's own REST catalog, and databases of MySQL, MariaDB and SQLite."""

import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from engine.base.errors import SpecError
from engine.base.parallel import map_parallel
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.delta.formats.registration import Registration
from engine.destination.iceberg.catalogs import rest_client
from engine.destination.iceberg.catalogs.catalog_of import catalog_of
from engine.destination.iceberg.catalogs.catalog_protocol import (
    CatalogError,
    CatalogName,
    CatalogTable,
    PublishedMetadata,
)
from engine.destination.iceberg.catalogs.rest_client import RestClient
from engine.destination.iceberg.manifest_files import Format
from engine.spec.catalog_settings import CatalogSettings
from tests.servers import Server
from tests.servers.rest_catalog import RestServer, rest_server
from tests.support.delta import path_of, rows_at
from tests.support.readers import iceberg_rows_by_reader
from tests.unit.destination.lake import Lake

BOTH = 'formats = ["delta", "iceberg"]\n'
NAME = CatalogName("d", "t")


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """A REST catalog."""
    with rest_server(tmp_path_factory.mktemp("rest")) as server:
        yield server


class Told:
    """An Iceberg table and its registration, as a process has them: what one publishes, the other tells."""

    def __init__(self, copy: IcebergCopy, registered: CatalogTable) -> None:
        self.copy = copy
        self.registered = registered
        self._registration = Registration(copy, registered, "the catalog")

    def catch_up(self) -> None:
        """Publish, then tell the catalog."""
        self.copy.catch_up()
        self._registration.catch_up()

    def expire(self, version: int) -> None:
        """Expire all snapshots before a version."""
        self.copy.expire(timedelta(0), version)
        self._registration.catch_up()

    def drop(self) -> None:
        """Drop the table, then its entry."""
        self.copy.drop()
        self._registration.is_dropped = True
        self._registration.catch_up()

    def foreign_commits(self) -> list[str]:
        """What others have done through the catalog."""
        return self._registration.take_foreign_commits()

    def published(self) -> PublishedMetadata:
        """The newest commit in the folder."""
        published = self.copy.published()
        assert published is not None
        return published


@dataclass
class World:
    """A table, its copy and a catalog."""

    lake: Lake
    settings: CatalogSettings
    format: Format

    def copy(self, ledger: str = "l", name: CatalogName = NAME) -> Told:
        """The Iceberg table of the mirror, as a process opens it."""
        copy = IcebergCopy(self.lake.pair.mirror.lake.folder, ledger, self.format, ("id",))
        return Told(copy, catalog_of(self.settings).table(name, ledger, copy.folder))

    def reader(self) -> Catalog:
        """The catalog, as pyiceberg opens it."""
        kind = self.settings.type
        return load_catalog(self.settings.name, type=kind, uri=self.settings.uri)

    def assert_equal(self, *, has_all: bool = True) -> int:
        """Each snapshot that the catalog has is a version, the newest one the newest. Returns how many there are."""
        mirror = self.lake.pair.mirror.lake
        mirror.refresh()
        table = self.reader().load_table(str(NAME))
        versions = []
        for snapshot in table.snapshots():
            assert snapshot.summary is not None
            version = int(snapshot.summary.additional_properties["tidemark.version"])
            rows = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().sort_by("id").to_pylist()
            assert rows == rows_at(mirror.folder, version).sort_by("id").to_pylist(), version
            versions.append(version)
        current = table.current_snapshot()
        assert current is not None
        assert current.snapshot_id == table.snapshots()[-1].snapshot_id
        assert table.scan().to_arrow().num_rows == rows_at(mirror.folder).num_rows
        newest = self.copy().copy.open_again().metadata
        assert newest is not None
        if has_all:
            assert {one.snapshot_id for one in table.snapshots()} == {one.id for one in newest.snapshots}
        assert table.schema().as_struct() == self._static().schema().as_struct()
        return len(versions)

    def _static(self) -> Any:
        from pyiceberg.table import StaticTable

        return StaticTable.from_metadata(self.copy().copy.open_again().metadata_uri)


@pytest.fixture(params=["rest-3", "rest-2", "sqlite-3", "sqlite-2"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A table with rows, in a catalog with an empty name."""
    kind, version = request.param.split("-")
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy({key: key for key in range(100)})
    if kind == "rest":
        server: RestServer = request.getfixturevalue("rest")
        settings = CatalogSettings(type="rest", uri=server.url)
        httpx.delete(f"{server.url}/v1/namespaces/d/tables/t")
    else:
        settings = CatalogSettings(type="sql", uri=f"sqlite:///{tmp_path}/catalog.db")
    return World(lake, settings, 3 if version == "3" else 2)


def test_a_table_is_registered_and_followed(world: World) -> None:
    """By one process after the other, with commits of one or many versions, and schema changes."""
    chance, copy = random.Random(3), world.copy()
    for number in range(12):
        for _ in range(chance.randrange(1, 4)):
            world.lake.change(world.lake.random_changes(chance, 5, list(range(120))))
        if number == 6:
            copy = world.copy()
        copy.catch_up()
        if number % 4 == 3:
            world.assert_equal()
    assert world.assert_equal() > 12
    assert copy.foreign_commits() == []


def test_what_expired_is_gone_from_the_catalog(world: World) -> None:
    """Before a VACUUM deletes the files."""
    copy = world.copy()
    copy.catch_up()
    for key in range(5):
        world.lake.change([(key, 1)])
        copy.catch_up()
    assert world.assert_equal() > 5
    copy.expire(copy.copy.published_version)
    assert world.assert_equal() == 1


def test_a_lost_answer_is_no_other_program(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit was made, and the next call finds it."""
    copy = world.copy()
    copy.catch_up()
    world.lake.change([(1, 1)])
    original = RestClient.request if world.settings.type == "rest" else None

    def lost(client: RestClient, method: str, *arguments: Any, **named: Any) -> Any:
        assert original is not None
        answer = original(client, method, *arguments, **named)
        if method == "POST":
            raise CatalogError("lost")
        return answer

    if original is not None:
        with monkeypatch.context() as patch:
            patch.setattr(RestClient, "request", lost)
            with pytest.raises(CatalogError):
                copy.catch_up()
    copy.catch_up()
    world.lake.change([(2, 2)])
    copy.catch_up()
    assert copy.foreign_commits() == []
    world.assert_equal()


@pytest.mark.parametrize("world", ["rest-2", "sqlite-2"], indirect=True)
def test_another_program_changes_the_table_through_the_catalog(world: World) -> None:
    """It is named, and the next commit makes the table equal again. pyiceberg writes v2 alone."""
    copy = world.copy()
    copy.catch_up()
    world.reader().load_table(str(NAME)).delete("id = 5")
    world.lake.change([(7, 7)])
    copy.catch_up()
    assert [text.endswith("through the catalog") for text in copy.foreign_commits()] == [True]
    world.assert_equal()
    world.lake.change([(8, 8)])
    copy.catch_up()
    world.assert_equal()


def test_a_table_that_somebody_drops_is_registered_again(world: World) -> None:
    """With all its snapshots."""
    copy = world.copy()
    copy.catch_up()
    world.lake.change([(1, 1)])
    copy.catch_up()
    world.reader().drop_table(str(NAME))
    world.lake.change([(2, 2)])
    copy.catch_up()
    assert world.assert_equal() > 2


def test_a_table_of_somebody_else_is_left_alone(world: World) -> None:
    """Neither changed nor dropped; the Iceberg table in its folder is published."""
    schema = pa.schema([("other", pa.int64())])
    if world.settings.type == "sql":
        world.copy().catch_up()  # makes the tables
        load_catalog("default", type="sql", uri=world.settings.uri).drop_table(str(NAME))
        catalog = load_catalog("default", type="sql", uri=world.settings.uri, warehouse=f"{world.lake.folder}/others")
    else:
        catalog = world.reader()
    if not catalog.namespace_exists("d"):
        catalog.create_namespace("d")
    catalog.create_table(str(NAME), schema)
    copy = world.copy()
    for act in (copy.catch_up, copy.registered.check):
        with pytest.raises(SpecError, match=r"The table d\.t exists in the (REST|SQL) catalog .* is not this table"):
            act()
    assert copy.copy.open_again().version == world.lake.pair.mirror.lake.log.version
    copy.drop()
    assert world.reader().load_table(str(NAME)).schema().find_field("other").name == "other"


def test_a_dropped_table_leaves_the_catalog(world: World) -> None:
    """Its name is free."""
    copy = world.copy()
    copy.catch_up()
    copy.drop()
    with pytest.raises(NoSuchTableError):
        world.reader().load_table(str(NAME))


def test_an_earlier_runner_does_not_take_the_catalog_back(world: World) -> None:
    """It wakes up behind commits of its successor, by which its own snapshots may have expired."""
    copy, asleep = world.copy(), world.copy()
    copy.catch_up()
    before = asleep.published()
    asleep.registered.follow(before)
    for expires in (False, True):
        world.lake.change([(1, 1)])
        copy.catch_up()
        if expires:
            copy.expire(copy.copy.published_version)
        assert asleep.registered.follow(before) == ""
        asleep.registered.forget()
        assert asleep.registered.follow(before) == ""
        world.assert_equal()


def test_a_catalog_that_is_away_delays_its_own_readers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told of everything when it is back."""
    monkeypatch.setattr(rest_client, "_REST_S", 0.0)
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy({1: 1})
    with rest_server(tmp_path) as server:
        world = World(lake, CatalogSettings(type="rest", uri=server.url), 3)
        copy = world.copy()
        copy.catch_up()
        server.stop()
        for key in range(3):
            lake.change([(key, key)])
            with pytest.raises(CatalogError, match="does not answer"):
                copy.catch_up()
        assert copy.copy.open_again().version == lake.pair.mirror.lake.log.version
        server.start()
        copy.catch_up()
        world.assert_equal()


def test_every_reader_finds_a_table_by_its_name(rest: RestServer, tmp_path: Path) -> None:
    """Of both versions, with deleted rows."""
    names, lakes = list[str](), list[Lake]()
    for version in (2, 3):
        lake = Lake(tmp_path / f"v{version}", "merge_on_read")
        lake.copy({key: key for key in range(200)})
        lake.change([(key, None if key % 2 else -key) for key in range(0, 60, 3)])
        name = CatalogName("readers", f"v{version}")
        World(lake, CatalogSettings(type="rest", uri=rest.url), version).copy(name=name).catch_up()
        names.append(f"rest:{rest.url}#{name}")
        lakes.append(lake)
    for reader, tables in iceberg_rows_by_reader(*names).items():
        for rows, lake in zip(tables, lakes, strict=True):
            assert dict(zip(*rows.select(["id", "v"]).to_pydict().values(), strict=True)) == lake.rows, reader


def test_a_table_whose_folder_was_deleted_is_registered_again(world: World) -> None:
    """Its numbers begin at 1 again, and the catalog names metadata that is gone."""
    copy = world.copy()
    for key in range(4):
        world.lake.change([(key, 1)])
        copy.catch_up()
    shutil.rmtree(path_of(copy.copy.folder))
    world.lake.change([(1, 2)])
    again = world.copy()
    again.catch_up()
    world.assert_equal()


def test_a_catalog_file_that_was_deleted_begins_again(tmp_path: Path) -> None:
    """SQLite writes to the deleted file, or refuses to, until it is opened again."""
    lake, file = Lake(tmp_path, "merge_on_read"), tmp_path / "catalog.db"
    lake.copy({1: 1})
    world = World(lake, CatalogSettings(type="sql", uri=f"sqlite:///{file}"), 3)
    copy = world.copy()
    copy.catch_up()
    file.unlink()
    lake.change([(1, 2)])
    with suppress(CatalogError):
        copy.catch_up()
    copy.catch_up()
    world.assert_equal()


def test_a_rollback_through_the_catalog_is_named_and_ends(rest: RestServer, tmp_path: Path) -> None:
    """Also if nothing changes before the snapshots expire, of which one is the newest there now."""
    httpx.delete(f"{rest.url}/v1/namespaces/d/tables/t")
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy({1: 1})
    world = World(lake, CatalogSettings(type="rest", uri=rest.url), 3)
    copy = world.copy()
    for key in range(4):
        lake.change([(key, key)])
        copy.catch_up()
    for expires in (True, False):
        _roll_back(rest, world)
        if expires:
            copy = world.copy()
            copy.catch_up()
            copy.expire(copy.copy.published_version)
        else:
            lake.change([(7, 7)])
            copy.catch_up()
        world.assert_equal()
        assert copy.foreign_commits() == ["a rollback by an unknown program through the catalog"]
        lake.change([(8, 8)])
        copy.catch_up()


def _roll_back(rest: RestServer, world: World) -> None:
    """Make the snapshot before the newest one the newest."""
    earlier = world.reader().load_table(str(NAME)).snapshots()[-2].snapshot_id
    update = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": earlier}
    done = httpx.post(f"{rest.url}/v1/namespaces/d/tables/t", json={"requirements": [], "updates": [update]})
    assert done.status_code == 200, done.text


def test_a_table_that_somebody_has_put_in_its_place_is_left_alone(rest: RestServer, tmp_path: Path) -> None:
    """Although ours was there a moment ago, and cannot be brought up to date by a commit."""
    httpx.delete(f"{rest.url}/v1/namespaces/d/tables/t")
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy({1: 1})
    world = World(lake, CatalogSettings(type="rest", uri=rest.url), 2)
    copy = world.copy()
    copy.catch_up()
    world.reader().drop_table(str(NAME))
    world.reader().create_table(str(NAME), pa.schema([("other", pa.int64())]))
    shutil.rmtree(path_of(copy.copy.folder))
    lake.change([(1, 2)])
    again = Told(world.copy().copy, copy.registered)
    with pytest.raises(SpecError, match="is not this table"):
        again.catch_up()
    assert world.reader().load_table(str(NAME)).schema().find_field("other").name == "other"


class _Liar(BaseHTTPRequestHandler):
    """Answers each request with the status and page of the moment."""

    status = 200

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = b"{}" if self.path.startswith("/v1/config") else b"<html></html>"
        self.send_response(200 if self.path.startswith("/v1/config") else self.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the names of the library

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize("status", [200, 302, 500])
def test_what_is_no_catalog_is_told_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """A page of a login or of another service is not taken for a commit."""
    monkeypatch.setattr(_Liar, "status", status)
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy({1: 1})
    with ThreadingHTTPServer(("127.0.0.1", 0), _Liar) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        copy = World(lake, CatalogSettings(type="rest", uri=url), 3).copy()
        for _ in range(2):
            with pytest.raises(CatalogError):
                copy.catch_up()
        server.shutdown()
        thread.join()


def test_names_that_differ_in_case_alone_are_two_tables(server: Server, database: str, tmp_path: Path) -> None:
    """On servers that compare texts without case, and while many tables are registered at once."""
    uri = f"mysql+pymysql://root@127.0.0.1:{server.port}/{database}"
    settings = CatalogSettings(type="sql", uri=uri)
    catalog, tables = catalog_of(settings), list[Told]()
    for name in ("orders", "Orders", *(f"t{n}" for n in range(8))):
        (tmp_path / name).mkdir()
        lake = Lake(tmp_path / name, "merge_on_read")
        lake.copy({1: 1})
        copy = IcebergCopy(lake.pair.mirror.lake.folder, "l", 3, ("id",))
        tables.append(Told(copy, catalog.table(CatalogName("d", name), "l", copy.folder)))
    for _ in range(2):
        map_parallel(Told.catch_up, tables, 8)
    found = {name for _, name in load_catalog("default", type="sql", uri=uri).list_tables("d")}
    assert found == {"orders", "Orders", *(f"t{n}" for n in range(8))}
    tables[1].drop()
    assert load_catalog("default", type="sql", uri=uri).table_exists("d.orders")
    map_parallel(lambda one: one.registered.check(), tables[2:], 8)


def test_a_moved_lake_is_registered_again(rest: RestServer, tmp_path: Path) -> None:
    """When its old tables are dropped: nobody knows whose they were, and the error says so."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    httpx.delete(f"{rest.url}/v1/namespaces/d/tables/t")
    settings = CatalogSettings(type="rest", uri=rest.url)
    lake = Lake(first, "merge_on_read")
    lake.copy({1: 1})
    World(lake, settings, 3).copy().catch_up()
    first.rename(second)
    moved = World(Lake(second, "merge_on_read"), settings, 3)
    with pytest.raises(CatalogError, match=r"cannot be read: .*first/d/t__iceberg") as raised:
        moved.copy().catch_up()
    assert "DELETE without purge" in raised.value.hint
    httpx.delete(f"{rest.url}/v1/namespaces/d/tables/t")
    moved.copy().catch_up()
    moved.assert_equal()


def test_tokens_are_fetched(rest: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By OAuth2's client credentials, once for many requests."""
    httpx.delete(f"{rest.url}/v1/namespaces/d/tables/t")
    monkeypatch.setenv("CLIENT_SECRET", "of the client")
    settings = CatalogSettings(type="rest", uri=rest.url, client_id="tidemark", client_secret_env="CLIENT_SECRET")
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy({1: 1})
    sent = list[tuple[str, str | None]]()
    original = httpx.Client.request

    def request(client: httpx.Client, method: str, url: str, **named: Any) -> httpx.Response:
        sent.append((url.removeprefix(rest.url), named["headers"].get("Authorization")))
        return original(client, method, url, **named)

    monkeypatch.setattr(httpx.Client, "request", request)
    world = World(lake, settings, 3)
    copy = world.copy()
    for key in range(3):
        lake.change([(key, key)])
        copy.catch_up()
    assert sent[0] == ("/v1/oauth/tokens", None)
    assert {token for _, token in sent[1:]} == {"Bearer client-credentials-token:sub=tidemark"}
    assert sum("/oauth/" in url for url, _ in sent) == 1
    monkeypatch.delenv("CLIENT_SECRET")
    with pytest.raises(SpecError, match="CLIENT_SECRET"):
        World(lake, settings, 3).copy().catch_up()
