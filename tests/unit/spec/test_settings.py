"""Specs: valid ones are read, and each fault has its own message."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import SpecError
from engine.spec.globs import select_tables
from engine.spec.settings import Source, load, parse, password

GOOD = """
name = "shop"
[source]
host = "127.0.0.1"
user = "tidemark"
password_env = "SHOP_PASSWORD"
tables = ["shop.*", "!shop.audit_*"]
[snapshot]
chunk_rows = 100
[sink]
type = "delta"
path = "lake"
"""
SPEC = Path("/specs/shop.toml")


def test_a_spec_is_read_with_its_defaults() -> None:
    """The documented example; relative paths start at the spec's folder."""
    spec = parse(GOOD, SPEC)
    assert (spec.name, spec.source.port, spec.source.startup, spec.snapshot.even_factor_lower) == (
        "shop",
        3306,
        "initial",
        0.05,
    )
    assert (spec.sink.path, spec.sink.mirror, spec.spark.master) == (Path("/specs/lake"), "auto", "local[*]")
    assert parse(GOOD.replace('"lake"', '"/lake"'), SPEC).sink.path == Path("/lake")
    assert (spec.alerts.lag_s, spec.alerts.lag_bytes, spec.alerts.runway_s, spec.alerts.all_routes()) == (
        None,
        None,
        21600,
        {},
    )
    assert (spec.metrics.port, spec.metrics.host) == (None, "127.0.0.1")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("chunk_rows", "chunk_row", "snapshot.chunk_row: unknown key; the nearest known key is 'chunk_rows'"),
        ("[snapshot]", "[snapshots]", "snapshots: unknown key; the nearest known key is 'snapshot'"),
        ("name =", "nam =", "nam: unknown key; the nearest known key is 'name'"),
        ("user", "usr", "source.usr: unknown key; the nearest known key is 'user'"),
        ('"shop.*"', '"shop"', "'shop' is not of the form database.table"),
        ('"shop.*"', '".x"', "'.x' is not of the form database.table"),
        ('"shop.*", ', "", "every glob excludes"),
        ('["shop.*", "!shop.audit_*"]', "[]", "source.tables"),
        ('type = "delta"', 'type = "iceberg"', "sink.type: Input should be 'delta'"),
        ("chunk_rows = 100", "chunk_rows = -1", "snapshot.chunk_rows: Input should be greater than or equal to 0"),
        ('host = "127.0.0.1"\n', "", "source.host: Field required"),
        ("chunk_rows = 100", 'priority = ["orders"]', "'orders' is not of the form database.table (globs allowed)"),
        ("chunk_rows = 100", 'priority = ["!a.b"]', "'!a.b' is not of the form database.table (globs allowed)"),
        ("[sink]", '[snapshot.tables."orders"]\nkey = "k"\n[sink]', "'orders' is not of the form database.table"),
        (
            "[sink]",
            '[snapshot.tables."a.b"]\nchunk_row = 1\n[sink]',
            "snapshot.tables.a.b.chunk_row: unknown key; the nearest known key is 'chunk_rows'",
        ),
        ("[sink]", '[snapshot.tables."a.b"]\nchunk_rows = -1\n[sink]', "chunk_rows: Input should be greater than"),
        ('name = "shop"', 'name = "my shop"', "name: 'my shop' is not a valid name: it begins with"),
        ("[snapshot]", 'startup = "inital"\n[snapshot]', "nearest: initial"),
        ("[snapshot]", 'startup = "timestamp:yesterday"\n[snapshot]', "'yesterday' is not a time in UTC"),
        ("[snapshot]", 'startup = "timestamp:2026-01-31T00:00:00+01:00"\n[snapshot]', "is not a time in UTC"),
        ("[snapshot]", 'startup = "timestamp:2026-01-31T00:00:00"\n[snapshot]', "is not a time in UTC"),
        ("[snapshot]", 'startup = "position:mysql-bin.000003"\n[snapshot]', "is not a binlog file and an offset"),
        ("[snapshot]", 'startup = "position:mysql-bin:4"\n[snapshot]', "is not a binlog file and an offset"),
        ("[snapshot]", 'startup = "gtid:1-2"\n[snapshot]', "is neither a GTID set"),
        ("[snapshot]", 'startup = "gtid:"\n[snapshot]', "is neither a GTID set"),
        ("[sink]", "[sink", "is not valid TOML"),
        ("[sink]", "[alerts]\nlag = 10\n[sink]", "alerts.lag: unknown key; the nearest known key is 'lag_s'"),
        ("[sink]", '[alerts]\nwebhook = "https://h/hunter2"\n[sink]', "the nearest known key is 'webhook_env'"),
        ("[sink]", "[alerts]\nlag_s = 0\n[sink]", "alerts.lag_s: Input should be greater than 0"),
        ("[sink]", "[metrics]\nport = 70000\n[sink]", "metrics.port: Input should be less than or equal to 65535"),
        ('password_env = "SHOP_PASSWORD"', 'password = "hunter2"', "The spec contains a password (source.password)"),
    ],
)
def test_each_fault_has_its_sentence(old: str, new: str, said: str) -> None:
    """The exit code is 2, and no message repeats a password."""
    assert old in GOOD
    with pytest.raises(SpecError) as raised:
        parse(GOOD.replace(old, new), SPEC)
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    "startup",
    [
        "timestamp:2026-01-31T00:00:00Z",
        "timestamp:2026-01-31T00:00:00.250+00:00",
        "position:mysql-bin.000003:4",
        "gtid:0-1-5,1-2-7",
        "gtid:b4ecf2b5-e602-11f1-a4fc-02fc00000001:1-3:b:1:my_tag:1-2, 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7",
    ],
)
def test_starts_at_a_position_stream_without_a_copy(startup: str) -> None:
    """With the positions of both servers."""
    source = parse(GOOD.replace("[snapshot]", f'startup = "{startup}"\n[snapshot]'), SPEC).source
    assert source.startup == startup
    assert not source.copies


def test_all_faults_are_reported_at_once() -> None:
    """In one message."""
    with pytest.raises(SpecError) as raised:
        parse(GOOD.replace("chunk_rows", "rows").replace('host = "127.0.0.1"', "port = 0"), SPEC)
    message = str(raised.value)
    assert all(where in message for where in ("source.host", "source.port", "snapshot.rows"))


def test_a_later_glob_decides_what_is_set_otherwise_for_a_table() -> None:
    """Setting by setting; anything else is as for all tables. `chunk_key` overrides all globs."""
    rules = """
[snapshot.tables."shop.*"]
chunk_rows = 50
even_factor_upper = 2.0
[snapshot.tables."*.orders"]
chunk_rows = 0
target_bytes = 4096
key = "day"
"""
    spec = parse(GOOD.replace("[sink]", f"{rules}[sink]"), SPEC).snapshot
    assert spec.rules("shop", "orders").model_dump() == {
        "chunk_rows": 0,
        "target_bytes": 4096,
        "even_factor_lower": 0.05,
        "even_factor_upper": 2.0,
        "key": "day",
    }
    assert (spec.rules("shop", "x").chunk_rows, spec.rules("shop", "x").key) == (50, None)
    assert spec.rules("other", "x").chunk_rows == 100
    keyed = spec.model_copy(update={"chunk_key": {"shop.orders": "id"}})
    assert keyed.rules("shop", "orders").key == "id"
    assert keyed.rules("old", "orders").key == "day"


def test_tables_are_copied_in_the_order_of_the_globs() -> None:
    """The first matching glob decides; tables without one come last."""
    spec = parse(GOOD.replace("chunk_rows = 100", 'priority = ["*.users", "shop.*"]'), SPEC).snapshot
    names = [("shop", "users"), ("other", "users"), ("shop", "orders"), ("other", "orders")]
    assert [spec.rank(*name) for name in names] == [0, 0, 1, 2]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, a folder, or not text."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0")
    for name in ("missing", ".", "binary"):
        with pytest.raises(SpecError, match=r"The spec .*(cannot be read|not UTF-8)"):
            load(tmp_path / name)
    (tmp_path / "good.toml").write_text(GOOD, encoding="utf-8")
    assert load(tmp_path / "good.toml").sink.path == tmp_path / "lake"


def test_passwords_come_by_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment or a file; a dangling reference is an error."""
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    (tmp_path / "secret").write_text("hunter3\n", encoding="utf-8")
    common = {"host": "h", "user": "u", "tables": ("a.b",)}
    assert password(Source(**common, password_env="SHOP_PASSWORD")) == "hunter2"
    assert password(Source(**common, password_file=tmp_path / "secret")) == "hunter3"
    assert password(Source(**common)) == ""
    with pytest.raises(SpecError, match=r"The environment variable NOT_THERE .* is not set"):
        password(Source(**common, password_env="NOT_THERE"))
    with pytest.raises(SpecError, match=r"password_file\) cannot be read"):
        password(Source(**common, password_file=tmp_path / "missing"))


@pytest.mark.parametrize(
    ("globs", "chosen"),
    [
        (["shop.*"], ["shop.a", "shop.audit_1", "shop.B"]),
        (["shop.*", "!shop.audit_*"], ["shop.a", "shop.B"]),
        (["!shop.audit_*", "shop.*"], ["shop.a", "shop.audit_1", "shop.B"]),
        (["shop.*", "!shop.a*", "shop.audit_1"], ["shop.audit_1", "shop.B"]),
        (["*.a"], ["shop.a", "shop2.a"]),
        (["shop?.[ab]"], ["shop2.a"]),
        (["shop.b"], []),
        (["*.*"], ["shop.a", "shop.audit_1", "shop.B", "shop2.a", "x.y.z"]),
    ],
)
def test_globs_choose_tables_and_a_later_one_wins(globs: list[str], chosen: list[str]) -> None:
    """`!` excludes; names are case-sensitive; tables without a match are not captured."""
    tables = [("shop", "a"), ("shop", "audit_1"), ("shop", "B"), ("shop2", "a"), ("x", "y.z")]
    assert [".".join(pair) for pair in select_tables(globs, tables)] == chosen


@given(st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z"), st.none() | st.integers(1, 2**32 - 4097))
def test_server_ids_leave_room_for_all_readers(name: str, configured: int | None) -> None:
    """4096 ids from the first one on, within 32 bits, always the same for the same name."""
    text = GOOD.replace('name = "shop"', f'name = "{name}"')
    if configured:
        text = text.replace("[snapshot]", f"server_id = {configured}\n[snapshot]")
    first = parse(text, SPEC).first_server_id()
    assert first == parse(text, SPEC).first_server_id()
    assert first == configured or configured is None
    assert 1 <= first <= 2**32 - 4096


def test_relative_files_are_taken_from_the_folder_of_the_spec(tmp_path: Path) -> None:
    """Not from the working directory of the engine or the console."""
    text = (
        'name = "a"\n[source]\nhost = "h"\nuser = "u"\n'
        'password_file = "secret"\ntls_ca = "/etc/ca.pem"\ntables = ["d.*"]\n'
        '[sink]\npath = "lake"\n'
    )
    spec = parse(text, tmp_path / "spec.toml")
    assert spec.source.password_file == tmp_path / "secret"
    assert spec.source.tls_ca == Path("/etc/ca.pem")
    assert spec.sink.path == tmp_path / "lake"


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[4]",
        "local[4, 2]",
        "spark://h:7077",
        "spark://h:7077,g:7077",
        "spark://[::1]:7077",
        "sc://h",
        "sc://h:15002/;use_ssl=true;user_id=x",
        "yarn",
        "k8s://https://h:6443",
    ],
)
def test_masters_of_every_form_are_taken_as_they_are(master: str) -> None:
    """All forms that Spark knows."""
    assert parse(f'{GOOD}[spark]\nmaster = "{master}"', SPEC).spark.master == master


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("lokal[2]", "nearest: local[*]"),
        ("local[x]", "nearest: local[*]"),
        ("spark:/h:7077", "nearest: spark://host:port"),
        ("spark://h", "nearest: spark://host:port"),
        ("connect://h:15002", "nearest: sc://host:port"),
        ("sc:h:15002", "nearest: sc://host:port"),
        ("YARN", "nearest: yarn"),
        ("k8s:https://h", "nearest: k8s://https://host:port"),
        ("sc://h:443/;token=abc", "put it into SPARK_CONNECT_AUTHENTICATE_TOKEN"),
    ],
)
def test_unknown_masters_name_the_nearest_form(master: str, said: str) -> None:
    """Nothing is started. A token is a secret and has a setting of its own."""
    with pytest.raises(SpecError) as raised:
        parse(f'{GOOD}[spark]\nmaster = "{master}"', SPEC)
    assert said in raised.value.message
    assert "abc" not in raised.value.message


def test_a_lake_may_be_in_a_bucket() -> None:
    """By its URL, with the endpoint and region of the spec; the path of a folder stays one."""
    spec = parse(GOOD.replace('"lake"', '"s3://my-bucket/the-lake/"\nendpoint = "http://127.0.0.1:9"'), SPEC)
    assert spec.sink.path == "s3://my-bucket/the-lake"
    assert (spec.sink.is_bucket, spec.sink.local_path) == (True, None)
    assert (spec.sink.folder / "d").url == "s3://my-bucket/the-lake/d"
    assert spec.sink.folder.options["aws_endpoint_url"] == "http://127.0.0.1:9"
    assert spec.sink.folder.options["aws_virtual_hosted_style_request"] == "false"
    assert parse(GOOD, SPEC).sink.folder.url == "/specs/lake"


def test_tables_are_iceberg_tables_by_glob() -> None:
    """The last match of each setting wins."""
    rules = '"d.*" = {formats = ["delta", "iceberg"]}, "d.old_*" = {iceberg = "v2"}, "d.old_x" = {formats = ["delta"]}'
    sink = parse(GOOD.replace('"lake"', f'"lake"\ntables = {{{rules}}}'), SPEC).sink
    tables = ("t", "old_t", "old_x")
    assert [sink.iceberg_version("d", name) for name in tables] == [3, 2, None]
    assert sink.iceberg_version("e", "t") is None


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ('path = "gs://bucket/lake"', "Google Cloud Storage is refused"),
        ('path = "ftp://bucket/lake"', "only folders, s3:// and az:// URLs are possible"),
        ('path = "az://lake/a"\nregion = "x"', "region: only for a bucket on S3"),
        ('path = "az://account:key@lake/a"', "credentials are never in a spec"),
        ('path = "s3://bucket/a%20b"', "a place in a bucket may have"),
        ('path = "s3://bucket/the lake"', "a place in a bucket may have"),
        ('path = "s3://bucket/a//b"', "a place in a bucket may have"),
        ('path = "s3:///lake"', "names no bucket"),
        ('path = "lake"\nregion = "eu-central-1"', "region: only for a path in a bucket"),
        ('path = "lake"\nprices = {puts_1000 = 0.005}', "prices: only for a path in a bucket"),
        ('path = "s3://bucket/lake"\nprices = {puts_1000 = -1}', "greater than or equal to 0"),
        ('path = "lake"\nformats = ["iceberg"]', 'formats must name "delta"'),
        ('path = "lake"\ntables = {"*.*" = {formats = ["iceberg"]}}', 'formats must name "delta"'),
        ('path = "az://account/lake"\nformats = ["delta", "iceberg"]', "needs a folder or a bucket on S3"),
    ],
)
def test_a_place_that_cannot_be_a_lake_is_refused(sink: str, message: str) -> None:
    """With the reason."""
    with pytest.raises(SpecError, match=re.escape(message)):
        parse(GOOD.replace('path = "lake"', sink), SPEC)


STATE = 'state = "{}"\n'


def test_a_state_may_be_in_a_bucket() -> None:
    """Beside the lake, or with a lake in a folder that all hosts share."""
    spec = parse(STATE.format("s3://bucket/pipelines/shop/") + GOOD.replace('"lake"', '"s3://bucket/lake"'), SPEC)
    assert spec.state == "s3://bucket/pipelines/shop"
    assert parse(STATE.format("s3://bucket/shop") + GOOD.replace('"lake"', '"/lake"'), SPEC).state is not None
    assert parse(GOOD, SPEC).state is None


@pytest.mark.parametrize(
    ("state", "path", "message"),
    [
        ("/a/folder", "/lake", "only folders, s3:// and az:// URLs are possible"),
        ("s3://user:secret@bucket/shop", "/lake", "credentials are never in a spec"),
        ("s3://bucket/shop", "lake", "a sink with a relative path: lake"),
        ("s3://bucket/shop", "s3://bucket/shop/lake", "its state and a sink in one place"),
        ("s3://bucket/shop", "s3://bucket/shop", "its state and a sink in one place"),
        ("s3://bucket/lake/state", "s3://bucket/lake", "its state and a sink in one place"),
        ("s3://bucket", "s3://bucket/lake", "its state and a sink in one place"),
    ],
)
def test_a_state_that_others_could_not_share_is_refused(state: str, path: str, message: str) -> None:
    """With the reason."""
    with pytest.raises(SpecError, match=re.escape(message)):
        parse(STATE.format(state) + GOOD.replace('"lake"', f'"{path}"'), SPEC)


PARQUET = '\n[[sinks]]\nname = "files"\ntype = "parquet"\npath = "{}"\n'


@pytest.mark.parametrize(
    ("first", "further"),
    [("lake", "s3://b/files"), ("s3://b/lake", "files"), ("s3://b/lake", "s3://b/lake2"), ("s3://b/x", "s3://c/x")],
)
def test_each_sink_is_in_a_folder_or_in_a_bucket(first: str, further: str) -> None:
    """A further sink reads the first one's files wherever they are."""
    spec = parse(GOOD.replace('"lake"', f'"{first}"') + PARQUET.format(further), SPEC)
    assert [one.is_bucket for one in (spec.sink, *spec.sinks)] == [one.startswith("s3:") for one in (first, further)]
    alone = parse(GOOD.replace('"lake"', '"s3://b/f"').replace('type = "delta"', 'type = "parquet"'), SPEC)
    assert (alone.sink.type, alone.sink.is_bucket) == ("parquet", True)


@pytest.mark.parametrize(
    ("first", "further"),
    [("s3://b/lake", "s3://b/lake"), ("s3://b/lake", "s3://b/lake/files"), ("s3://b", "s3://b/x"), ("lake", "lake/x")],
)
def test_two_sinks_in_one_place_are_refused(first: str, further: str) -> None:
    """Their files would be mixed."""
    with pytest.raises(SpecError, match="two sinks in one place"):
        parse(GOOD.replace('"lake"', f'"{first}"') + PARQUET.format(further), SPEC)
