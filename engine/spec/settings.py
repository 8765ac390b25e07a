"""The spec: a pipeline's definition in TOML (docs/configuration.md).

An error for an unknown key names the nearest known key.
"""

import difflib
import hashlib
import os
import re
import tomllib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import Field, ValidationError, field_validator, model_validator

from engine.base import redaction
from engine.base.errors import SpecError
from engine.spec.alert_settings import Alerts, Route
from engine.spec.further_sinks import below, check_further, with_first_sink
from engine.spec.globs import GLOB, including, matches
from engine.spec.journal_settings import JournalSettings
from engine.spec.pipeline_name import NAME, NAME_RULE
from engine.spec.secrets import secret
from engine.spec.section import Section
from engine.spec.sink_settings import Sink, bucket_url, require_same_everywhere, require_section
from engine.spec.startup import checked_startup
from engine.spec.throttle_settings import Throttle
from engine.spec.verify_settings import Verify
from engine.spec.watch_settings import Watch

_COMMAND_LINE = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions", "spark.driver.extraClassPath")
"""Spark settings that become part of the driver's command line."""
_MASTERS = {
    "local": r"local",
    "local[*]": r"local\[(\*|\d+)( ?, ?\d+)?\]",
    "spark://host:port": r"spark://[^\s/,]+:\d+(,[^\s/,]+:\d+)*",
    "sc://host:port": r"sc://[^\s/]+(/\S*)?",
    "yarn": r"yarn",
    "k8s://https://host:port": r"k8s://\S+",
}
"""The forms of `spark.master`: as shown, and as recognised."""


class Source(Section):
    """The server to capture.

    The spec never contains the password itself: `password_env` or `password_file` says where it is.
    """

    host: str
    """Host name or address."""
    port: int = Field(3306, ge=1, le=65535)
    """TCP port."""
    user: str
    """The user to log in as. `check` lists the privileges that it needs;
    [Quick start](quick-start.md#2-create-a-user-on-the-source) has the statements."""
    password_env: str | None = None
    """The environment variable that contains the password. A process reads it when it starts. It beats the file."""
    password_file: Path | None = None
    """The file that contains the password. It is read again at each login, so a changed password needs no restart."""
    tables: tuple[str, ...]
    """The tables to capture, as globs. A glob that begins with `!` excludes. The last match wins."""
    startup: str = "initial"
    """Where the pipeline starts. `initial`: snapshot the tables, then stream the binlog. `snapshot`: snapshot them and
    end. `latest`, `earliest`, `timestamp:<RFC 3339, UTC>`, `position:<file>:<offset>`, `gtid:<set>`: no snapshot,
    stream from there."""
    server_id: int | None = Field(None, ge=1, lt=2**32 - 4096)
    """The first of 4096 replication server ids. By default, derived from the pipeline's name."""
    tls: Literal["off", "preferred", "required", "verify"] = "preferred"
    """Whether connections use TLS. `preferred`: if the server offers it. Only `verify` protects against an active
    attacker."""
    tls_ca: Path | None = None
    """The file with the certificate authority for `verify`. By default, the system's authorities."""
    connect_timeout_s: float = Field(10.0, gt=0)
    """Timeout for connecting."""
    silence_s: float = Field(30.0, gt=0)
    """A binlog connection that receives no data for this long counts as lost and is reopened."""
    invalid_dates: Literal["error", "null"] = "error"
    """What to do with invalid dates (zero, a zero part, 31 February). `error`: stop the table. `null`: write NULL and
    count it."""
    schema_changes: Literal["copy", "stop"] = "copy"
    """What to do with a table whose rows a DDL may have changed. `copy`: resnapshot it. `stop`: stop it."""
    max_resnapshots_per_hour: int = Field(20, ge=1)
    """A table that would be resnapshotted more often within an hour, without an operator's request, stops instead. From
    the sixth on, a resnapshot begins two minutes after its cause, once for all causes until then: 35 within an hour at
    most, so a larger number stops no table."""
    new_tables: Literal["add", "ignore", "refuse"] = "add"
    """What to do with tables that appear later and match `tables`. `add`: capture them, at once. `ignore`: leave them
    out; an alert names them while they are there. `refuse`: refuse to start. Work tables of gh-ost and
    pt-online-schema-change do not count."""
    settle_s: float = Field(2.0, gt=0)
    """How old a position must be to serve as a low watermark of the class `aged` (see
    [Correctness](correctness.md#watermarks))."""

    @field_validator("tables")
    @classmethod
    def _globs(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for glob in value:
            if not GLOB.match(glob):
                raise ValueError(f"{glob!r} is not of the form database.table (globs allowed, ! in front excludes)")
        if not value:
            raise ValueError("name at least one table, as database.table (globs allowed)")
        if all(glob.startswith("!") for glob in value):
            raise ValueError("every glob excludes; at least one must include")
        return value

    @field_validator("startup")
    @classmethod
    def _startup(cls, value: str) -> str:
        return checked_startup(value)

    @property
    def copies(self) -> bool:
        """Whether the tables are copied; otherwise they are only streamed."""
        return self.startup in ("initial", "snapshot")


class TableRules(Section):
    """Settings for some tables. Keys that are not set are inherited from `[snapshot]`."""

    chunk_rows: int | None = Field(None, ge=0)
    """Rows per chunk."""
    target_bytes: int | None = Field(None, ge=1 << 10)
    """Bytes per chunk."""
    even_factor_lower: float | None = Field(None, ge=0)
    """Lower bound of the distribution factor."""
    even_factor_upper: float | None = Field(None, gt=0)
    """Upper bound of the distribution factor."""
    key: str | None = None
    """The chunk key: an indexed column to split the table by. By default, the table's primary or unique key."""


class Snapshot(Section):
    """How tables are split into chunks and copied."""

    chunk_rows: int = Field(0, ge=0)
    """Rows per chunk. 0: as many as fit into `target_bytes`."""
    target_bytes: int = Field(16 << 20, ge=1 << 10)
    """Bytes per chunk, by the server's statistics."""
    even_factor_lower: float = Field(0.05, ge=0)
    """A numeric key is split evenly if its distribution factor is at least this."""
    even_factor_upper: float = Field(1000.0, gt=0)
    """A numeric key is split evenly if its distribution factor is at most this."""
    readers: int = Field(0, ge=0)
    """Chunk tasks that run at the same time. 0: as many as Spark has slots."""
    chunk_key: dict[str, str] = Field(default_factory=dict)
    """The chunk key of some tables: full table name to column."""
    tables: dict[str, TableRules] = Field(default_factory=dict)
    """Settings for some tables, by glob. The last match wins."""
    priority: tuple[str, ...] = ()
    """Globs. Tables that match the first one are copied first, and so on; all other tables follow."""
    max_chunk_memory_bytes: int = Field(192 << 20, ge=1 << 20)
    """A chunk that needs more memory than this spills to the reader's disk."""
    chunk_attempts: int = Field(8, ge=1)
    """Attempts at a chunk before it is parked. Failures while the source is away do not count."""

    @field_validator("tables", "priority")
    @classmethod
    def _table_globs(cls, value: Any) -> Any:
        return including(value)

    def rules(self, database: str, table: str) -> TableRules:
        """The merged settings of a table; only the key may be None."""
        names = ("chunk_rows", "target_bytes", "even_factor_lower", "even_factor_upper")
        merged: dict[str, Any] = {name: getattr(self, name) for name in names}
        for glob, rules in self.tables.items():
            if matches(glob, database, table):
                own = {name: value for name, value in rules.model_dump().items() if value is not None}
                # A size in bytes overrides a number of rows, whatever applies to other tables.
                merged |= {"chunk_rows": 0, **own} if "target_bytes" in own else own
        if f"{database}.{table}" in self.chunk_key:
            merged["key"] = self.chunk_key[f"{database}.{table}"]
        return TableRules(**merged)

    def rank(self, database: str, table: str) -> int:
        """A table's place in the snapshot order, from 0."""
        return next((n for n, glob in enumerate(self.priority) if matches(glob, database, table)), len(self.priority))


Algorithm = Literal["sha256", "sha512"]
"""The digest of a masked value."""


class ProjectionRules(Section):
    """The projection of some tables: which columns and rows are published.

    Later globs override earlier ones, key by key.
    """

    columns: tuple[str, ...] | None = None
    """Publish only these columns and the key."""
    exclude: tuple[str, ...] | None = None
    """Publish all columns except these."""
    mask: dict[str, Algorithm] | None = None
    """Publish a hexadecimal digest instead of these columns: column to `sha256` or `sha512`. A list of columns means
    `sha256`."""
    where: str | None = None
    """The row filter, in SQL. Only rows for which it is true are published. Texts are compared exactly, whatever their
    collation: `region = 'EU'` does not publish `eu`; `check` warns of it. Labels of an ENUM are written as they are
    declared, a YEAR with four digits."""

    @field_validator("mask", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return dict.fromkeys(value, "sha256") if isinstance(value, list | tuple) else value


class Spark(Section):
    """The Spark session that runs the readers."""

    master: str = "local[*]"
    """`local[N]`, `spark://host:port`, `sc://host:port` (Spark Connect), `yarn` or `k8s://https://host:port`."""
    conf: dict[str, str] = Field(default_factory=dict)
    """Spark configuration: property to value."""

    @field_validator("conf")
    @classmethod
    def _conf(cls, value: dict[str, str]) -> dict[str, str]:
        for name in _COMMAND_LINE:
            if redaction.holds_secret(name, value.get(name, "")):
                raise ValueError(
                    f"{name} contains what looks like a secret, and appears in the process list for everyone to read"
                )
        return value

    @field_validator("master")
    @classmethod
    def _master(cls, value: str) -> str:
        if not any(re.fullmatch(form, value) for form in _MASTERS.values()):
            nearest = difflib.get_close_matches(value, _MASTERS, 1, 0.0)[0]
            raise ValueError(f"{value!r} is not a Spark master ({', '.join(_MASTERS)}); nearest: {nearest}")
        if re.search(r"(?i)[;/]token=", value):
            raise ValueError("a token is not accepted in a spec; put it into SPARK_CONNECT_AUTHENTICATE_TOKEN")
        return value


class Metrics(Section):
    """Metrics over HTTP, in the OpenMetrics format."""

    port: int | None = Field(None, ge=1, le=65535)
    """The port to serve metrics on. Not set: no metrics."""
    host: str = "127.0.0.1"
    """The address to listen on."""


class Spec(Section):
    """One source, some of its tables, one destination."""

    name: str
    """The pipeline's name: up to 64 letters, digits, `-` and `_`, beginning with a letter or digit."""
    state: str | None = None
    """Where the pipeline's state is, such as `s3://bucket/pipelines/shop`, so that any host can run and watch it
    ([State in a bucket](s3.md#state-in-a-bucket)). By default it is in the pipeline's folder on this host."""
    tags: tuple[str, ...] = ()
    """Words by which the console's list of pipelines can be filtered, such as a team or a stage."""
    source: Source
    snapshot: Snapshot = Snapshot()
    throttle: Throttle = Throttle()
    sink: Sink
    """The destination. It decides where readers put files, and a run waits for it."""
    sinks: tuple[Sink, ...] = ()
    """Further destinations ([Several destinations](destinations.md#several-destinations)), each with a `name` and the
    keys of `[sink]`. Without `[sink]`, the first one with mirrors takes its place, else the first one."""
    spark: Spark = Spark()
    verify: Verify = Verify()
    alerts: Alerts = Alerts()
    metrics: Metrics = Metrics()
    journal: JournalSettings = JournalSettings()
    watch: Watch = Watch()
    tables: dict[str, ProjectionRules] = Field(default_factory=dict)
    """Projections, by glob. If several globs match, each key has the value of the last one that sets it."""
    mask_salt_env: str | None = None
    """The environment variable that contains the HMAC secret for masks. Not set: masks are plain digests."""
    mask_salt_file: Path | None = None
    """The file that contains that secret."""
    poll_interval_s: float = Field(0.5, gt=0)
    """The shortest time between two epochs. Under steady load it grows, at most to `max_epoch_interval_s`."""
    max_epoch_interval_s: float | None = Field(None, gt=0)
    """The longest time between two epochs under steady load ([Freshness](operations.md#freshness)). Not set:
    `sink.merge_interval_s`. A value below `poll_interval_s` has no effect."""

    @field_validator("state")
    @classmethod
    def _state(cls, value: str | None) -> str | None:
        return None if value is None else bucket_url(value)

    @model_validator(mode="before")
    @classmethod
    def _first_sink(cls, values: Any) -> Any:
        return with_first_sink(values)

    @field_validator("sinks")
    @classmethod
    def _further(cls, value: tuple[Sink, ...]) -> tuple[Sink, ...]:
        check_further(value)
        return value

    @model_validator(mode="after")
    def _has_a_place_for_files(self) -> "Spec":
        for one in (self.sink, *self.sinks):
            require_section(one)
        if self.sink.has_no_folder:
            raise ValueError(
                "sink.path: missing; readers put their files there until they are sent. Name a folder or a bucket"
            )
        return self

    @field_validator("name")
    @classmethod
    def _named(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not a valid name: {NAME_RULE}")
        return value

    @field_validator("tables")
    @classmethod
    def _table_globs(cls, value: dict[str, ProjectionRules]) -> dict[str, ProjectionRules]:
        return dict(including(value))

    def projection_rules(self, database: str, table: str) -> ProjectionRules:
        """The merged projection rules of a table."""
        merged: dict[str, Any] = {}
        for glob, rules in self.tables.items():
            if matches(glob, database, table):
                merged |= {name: getattr(rules, name) for name in rules.model_fields_set}
        return ProjectionRules(**merged)

    def parallel_readers(self) -> int:
        """How many readers may run at the same time, each with a connection.

        Of a cluster, only `snapshot.readers` is known.
        """
        local = re.fullmatch(r"local(?:\[(\*|\d+)[^\]]*\])?", self.spark.master)
        if local is None:
            return self.snapshot.readers or 1
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)

    def table_rules(self) -> dict[str, tuple[str, ...]]:
        """By setting, its globs of tables.

        Globs of `tables` are not among them: one that matches nothing is an error.
        """
        return {
            "snapshot.tables": tuple(self.snapshot.tables),
            "snapshot.priority": self.snapshot.priority,
            "snapshot.chunk_key": tuple(self.snapshot.chunk_key),
            "sink.tables": tuple(self.sink.tables),
            "alerts.tables": tuple(self.alerts.tables),
        }

    def first_server_id(self) -> int:
        """The first of the 4096 server ids that the pipeline's binlog connections use."""
        digest = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "big")
        return self.source.server_id or 1_000_000_000 + digest % 1_000_000_000 // 4096 * 4096


def load(path: Path) -> Spec:
    """Read and check a spec file. Raises SpecError with every fault found."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(
            f"The spec {path} cannot be read: {error.strerror}.", hint="Give the path of a TOML file."
        ) from None
    except UnicodeDecodeError:
        raise SpecError(f"The spec {path} is not UTF-8 text.", hint="Give the path of a TOML file.") from None
    return parse(text, path)


def parse(text: str, path: Path) -> Spec:
    """Parse and validate a spec. path: names it in errors; relative paths in the spec are relative to its folder."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path} is not valid TOML: {error}.", hint="Correct that line.") from None
    _refuse_password(values)
    try:
        spec = Spec.model_validate(values)
    except ValidationError as error:
        faults = "\n".join(f"  {_fault(dict(e))}" for e in error.errors())
        raise SpecError(
            f"{path} is not a valid spec:\n{faults}", hint="Correct these keys; nothing was started."
        ) from None
    root = path.resolve().parent  # the pipeline's directory may contain a link to a spec elsewhere
    source = spec.source.model_copy(
        update={
            name: root / at for name in ("password_file", "tls_ca") if (at := getattr(spec.source, name)) is not None
        }
    )
    sink = spec.sink.below(root)
    salt = root / spec.mask_salt_file if spec.mask_salt_file is not None else None
    sinks = below(root, sink, spec.sinks, path)
    if spec.state is not None:
        require_same_everywhere(spec.state, [spec.sink, *spec.sinks], path)
    paths = {"source": source, "sink": sink, "sinks": sinks, "mask_salt_file": salt, "alerts": spec.alerts.below(root)}
    spec = spec.model_copy(update=paths)
    learn_secrets(spec)
    return spec


def _refuse_password(values: dict[str, Any]) -> None:
    if "mask_salt" in values:
        raise SpecError(
            "The spec contains the salt of its masks (mask_salt).",
            detail="With the salt, every masked value can be found by trial and error; specs are shown and copied.",
            hint="Put it into an environment variable and name that in mask_salt_env, or into a file and name that in "
            "mask_salt_file.",
        )
    source = values.get("source")
    if isinstance(source, dict) and "password" in source:
        raise SpecError(
            "The spec contains a password (source.password).",
            detail="Specs are shown in the console and copied into diagnostics, so a password in one is not accepted.",
            hint="Put it into an environment variable and name that in source.password_env, or into a file and name "
            "that in source.password_file.",
        )


def _fault(error: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] != "extra_forbidden":
        return f"{where}: {error['msg'].removeprefix('Value error, ')}"
    model: Any = Spec
    for part in error["loc"][:-1]:
        # In a dictionary (snapshot.tables), the part is a name chosen by the user.
        model = get_args(model)[1] if get_origin(model) is dict else model.model_fields[str(part)].annotation
    keys = list(model.model_fields)
    nearest = difflib.get_close_matches(str(error["loc"][-1]), keys, 1, 0.0)[0]
    return f"{where}: unknown key; the nearest known key is {nearest!r}"


def learn_secrets(spec: Spec) -> None:
    """Learn every secret that the spec refers to, so that none is shown (`engine.base.redaction`)."""
    redaction.learn_environment()
    redaction.learn_settings(spec.spark.conf)
    reads: list[Callable[[], object]] = [partial(password, spec.source), partial(mask_salt, spec)]
    if spec.sink.catalog is not None:
        reads += [partial(secret, "sink.catalog", *one) for one in spec.sink.catalog.secrets()]
    for sink in (spec.sink, *spec.sinks):
        if sink.kafka is not None:
            reads += [partial(secret, "sink.kafka.password", *one) for one in sink.kafka.secrets()]
        if sink.database is not None:
            reads += [partial(secret, "sink.database.password", *one) for one in sink.database.secrets()]
    reads += [partial(route_secret, name, route) for name, route in spec.alerts.all_routes().items()]
    for read in reads:
        with suppress(SpecError):  # the reference is broken, so there is nothing to hide
            read()


def password(source: Source) -> str:
    """The referenced password; empty if there is no reference. Raises SpecError if the reference is broken."""
    return secret("source.password", source.password_env, source.password_file) or ""


def mask_salt(spec: Spec) -> str | None:
    """The referenced salt of the masks; None if there is no reference.

    Raises SpecError if it is broken or the salt is empty.
    """
    salt = secret("mask_salt", spec.mask_salt_env, spec.mask_salt_file)
    if salt == "":
        raise SpecError(
            "The salt of the masks (mask_salt_env, mask_salt_file) is empty.", hint="Set it, or remove the key."
        )
    return salt


def route_secret(name: str, route: Route) -> str:
    """The URL, key or password that a route refers to; empty if it needs none.

    Raises SpecError if the reference is broken.
    """
    where = "alerts" if name == "webhook" else f"alerts.routes.{name}"
    if route.type in ("webhook", "slack"):
        key = "alerts.webhook" if name == "webhook" else f"{where}.url"
        return _url(key, secret(key, route.url_env, route.url_file) or "")
    kind, variable, file = (
        ("key", route.key_env, route.key_file)
        if route.type == "pagerduty"
        else ("password", route.password_env, route.password_file)
    )
    value = (secret(f"{where}.{kind}", variable, file) or "").strip()
    if not value and (variable or file):
        raise SpecError(f"The value of {where}.{kind}_env or {kind}_file is empty.", hint="Set it, or remove the key.")
    return value


def _url(key: str, value: str) -> str:
    url = value.strip()
    if not re.fullmatch(r"https?://[^\s/?#@]+([/?#]\S*)?", url) or not url.isascii():
        raise SpecError(
            f"The value of {key}_env or {key}_file is not a webhook URL.",
            detail="It is not shown here, because it may contain a secret. Nothing was started.",
            hint="A URL begins with http:// or https:// and consists of ASCII characters without blanks.",
        )
    return url
