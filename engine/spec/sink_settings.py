"""The `[sink]` section of a spec."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from engine.base.errors import SpecError
from engine.spec.catalog_settings import CatalogSettings
from engine.spec.database_settings import DATABASE_TYPES, DatabaseSettings
from engine.spec.globs import including, matches
from engine.spec.kafka_settings import KafkaSettings
from engine.spec.periods import period_s
from engine.spec.section import Section
from engine.spec.store_prices import StorePrices
from engine.spec.writer_settings import WRITER_TYPES, WriterSettings
from engine.store.bucket_url import parts_of
from engine.store.folder_at import folder_at

if TYPE_CHECKING:  # Arrow and the client of buckets would be imported with every spec
    from engine.store.folder import Folder

MirrorMode = Literal["auto", "copy_on_write", "merge_on_read"]
"""How changes are merged into a mirror, as set."""
Merging = Literal["copy_on_write", "merge_on_read"]
"""How changes are merged into a mirror."""
TableFormat = Literal["delta", "iceberg"]
"""A format that a table can be read in."""
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
IcebergVersion = Literal["v2", "v3"]
OF_MIRRORS = (
    "mirror",
    "formats",
    "iceberg",
    "catalog",
    "max_write_amplification",
    "max_merge_delay_s",
    "tables",
    "files_retention",
    "max_versions",
    "changes_retention",
)
"""The keys that say how mirrors and Delta tables are kept."""
_OF_SERVERS = ("kafka://", *(f"{kind}://" for kind in DATABASE_TYPES))
_UNUSABLE = re.compile(r"[^A-Za-z0-9_\-./]")
AUTO_BYTES = 16 << 20
"""`auto` merges tables of at least this size on read. Below, rewriting the table costs no more than writing deletion
vectors."""


def bucket_url(value: str) -> str:
    """A URL of a place in a bucket, without slashes at its end. Raises ValueError."""
    root, path = parts_of(value)
    folders = path.split("/")
    if "@" in root:
        raise ValueError("a URL with a user or a password is not accepted: credentials are never in a spec")
    if _UNUSABLE.search(path) or "" in folders[:-1] or {".", ".."} & set(folders):
        raise ValueError(f"{value}: a place in a bucket may have ASCII letters, digits, `_`, `-`, `.` and `/`")
    return f"{root}/{path}" if path else root


class SinkRules(Section):
    """Settings for the destination of some tables. Keys that are not set are inherited from `[sink]`."""

    mirror: MirrorMode | None = None
    """How changes are merged into the mirror."""
    formats: tuple[TableFormat, ...] | None = None
    """The formats that the tables can be read in."""
    iceberg: IcebergVersion | None = None
    """The version of Iceberg's spec."""


class Sink(Section):
    """The destination."""

    type: Literal["delta", "parquet", "kafka", "postgresql", "mysql", "duckdb", "python", "spark"] = "delta"
    """What is kept there. `delta`: for each table a mirror and a change log, as Delta tables. `parquet`: the change log
    alone, as plain files ([Parquet](destinations.md#parquet)). `kafka`: the change log alone, as messages
    ([Kafka](kafka.md)). `postgresql`, `mysql`, `duckdb`: the rows alone, in tables of a database
    ([Databases](databases.md)); `mysql` is MariaDB, too. `python`, `spark`: what a function, or one of Spark's writers,
    makes of the changes ([Writers](destinations.md#writers))."""
    name: str = ""
    """The name of a sink in `[[sinks]]`, by which status and alerts call it."""
    max_kept_bytes: int = Field(20 << 30, gt=0)
    """For a further sink: the most bytes of files that are kept for it while it is slow or away. If that is not enough,
    it is stopped, and the others continue."""
    path: Path | str
    """The folder of the lake, or a place in a bucket such as `s3://bucket/lake` ([S3](s3.md)) or `az://container/lake`
    ([Azure](azure.md)). A relative path is relative to the spec's folder. Of `kafka` and of databases: where readers
    put files until they are sent. A further sink of those types has no path. Of `python` and `spark`: where Tidemark
    notes what was written."""
    endpoint: str | None = None
    """The URL of a store that speaks S3, or of an Azure account. By default `AWS_ENDPOINT_URL` or
    `AZURE_STORAGE_ENDPOINT` of the environment, else the provider's own."""
    region: str | None = None
    """The region of a bucket on S3. By default `AWS_REGION` of the environment."""
    path_style: bool | None = None
    """On S3: whether the bucket is part of a request's path instead of the host name. By default it is with an
    endpoint."""
    prices: StorePrices | None = None
    """What the bucket's store charges ([Costs](s3.md#costs)): with it, `plan` and the console show money a month."""
    mirror: MirrorMode = "auto"
    """How changes are merged into a mirror ([Merging](destinations.md#merging)). `copy_on_write`: rewrite each file
    that has a changed row. `merge_on_read`: write changed rows to new files and delete the old ones with deletion
    vectors. `auto`: choose by the table's size. Fixed when a mirror is created; a resnapshot applies a change."""
    formats: tuple[TableFormat, ...] = ("delta",)
    """The formats that the tables can be read in. With `["delta", "iceberg"]`, each table can be read as an Iceberg
    table too, over the same files ([Iceberg](iceberg.md))."""
    iceberg: IcebergVersion = "v3"
    """The version of Iceberg's spec. `v3` has deletion vectors, as Delta has. `v2` is for readers that do not know v3
    yet, and writes position deletes."""
    catalog: CatalogSettings | None = None
    """The Iceberg catalog in which the tables are registered ([Catalogs](iceberg.md#catalogs)). Without one, readers
    open them by their paths."""
    kafka: KafkaSettings | None = None
    """The brokers, topics and messages of `type = "kafka"`."""
    database: DatabaseSettings | None = None
    """The server, login and tables of a database, or the file of `type = "duckdb"`."""
    writer: WriterSettings | None = None
    """What writes the changes of `type = "python"` and `"spark"`."""
    merge_interval_s: float = Field(10.0, ge=0)
    """Minimum time between two merges into a mirror. Deferred further while merging would use more than 25 % of the
    time."""
    max_write_amplification: float = Field(100.0, ge=0)
    """A merge is also deferred while it would write more than this many times the size of the changes. The limit does
    not apply to merges that write less than 1 MiB or take less than 50 ms. 0: no limit."""
    max_merge_delay_s: float = Field(300.0, gt=0)
    """No merge is deferred longer than this."""
    tables: dict[str, SinkRules] = Field(default_factory=dict)
    """Settings for some tables, by glob. The last match wins."""
    maintenance: bool = True
    """Whether the runner maintains the tables ([Maintenance](destinations.md#maintenance)). `tidemark maintain` always
    works."""
    files_retention: str = "7d"
    """How long a file is kept after the newest version stops using it, for readers of older versions and for time
    travel."""
    max_versions: int = Field(4000, ge=1)
    """How many earlier versions of a Delta table are kept at most, and how many files that only these need: four times
    as many. Each version stays for an hour at least. A table that changes every second would have millions of files in
    a week. A version that a backup names can be restored for `files_retention` all the same, and for seven days at
    most, for which Delta logs are kept."""
    changes_retention: str = "forever"
    """How long changes stay in the change log, such as `30d`. `forever`: Tidemark never deletes them."""

    @model_validator(mode="before")
    @classmethod
    def _of_servers(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        kind, place = values.get("type"), ""
        if (kafka := values.get("kafka")) is not None:
            if kind != "kafka":
                raise ValueError('[sink.kafka] belongs to type = "kafka"')
            place = KafkaSettings.model_validate(kafka).place
        if (database := values.get("database")) is not None:
            if kind not in DATABASE_TYPES:
                raise ValueError('[sink.database] belongs to type = "postgresql", "mysql" or "duckdb"')
            settings = DatabaseSettings.model_validate(database)
            settings.require_complete(kind)
            place = settings.place(kind)
        if (writer := values.get("writer")) is not None:
            if kind not in WRITER_TYPES:
                raise ValueError('[sink.writer] belongs to type = "python" or "spark"')
            WriterSettings.model_validate(writer).require_complete(kind)
        if str(values.get("path", place)).startswith(_OF_SERVERS) and values.get("path", place) != place:
            raise ValueError(f"path: {values['path']} is no folder and no bucket")
        return {"path": place, **values} if place else values

    @model_validator(mode="after")
    def _of_delta_tables(self) -> Self:
        unused = [name for name in OF_MIRRORS if name in self.model_fields_set]
        if unused and not self.has_mirrors:
            raise ValueError(f'{", ".join(unused)}: only for type = "delta"; a {self.type} destination has no mirrors')
        places = [self.formats, *(rules.formats for rules in self.tables.values() if rules.formats is not None)]
        if any("delta" not in formats for formats in places):
            raise ValueError('formats must name "delta": other formats are published over the files of Delta tables')
        if self.catalog is not None and not any("iceberg" in formats for formats in places):
            raise ValueError('catalog: only with formats = ["delta", "iceberg"]: it registers Iceberg tables')
        if any("iceberg" in formats for formats in places) and str(self.path).startswith("az://"):
            raise ValueError(
                'formats = ["delta", "iceberg"] needs a folder or a bucket on S3: Iceberg readers call places on '
                "Azure by other URLs than az://, and those were not tried"
            )
        return self

    @field_validator("mirror", mode="before")
    @classmethod
    def _earlier(cls, value: Any) -> Any:
        return "copy_on_write" if value == "merge" else value  # its name in version 0.1

    @field_validator("tables")
    @classmethod
    def _globs(cls, value: dict[str, SinkRules]) -> dict[str, SinkRules]:
        return dict(including(value))

    @field_validator("files_retention", "changes_retention")
    @classmethod
    def _period(cls, value: str) -> str:
        if value != "forever":
            period_s(value)
        return value

    @field_validator("files_retention")
    @classmethod
    def _long(cls, value: str) -> str:
        if value == "forever":
            raise ValueError("name a period, such as 7d; for no deletion at all, set maintenance = false")
        return value

    @field_validator("path", mode="before")
    @classmethod
    def _place(cls, value: Any) -> Any:
        if not isinstance(value, str) or "://" not in value:
            return Path(value) if isinstance(value, str) else value
        return value if value.startswith(_OF_SERVERS) else bucket_url(value)

    @model_validator(mode="after")
    def _of_buckets(self) -> Self:
        unused = [name for name in ("endpoint", "region", "path_style", "prices") if name in self.model_fields_set]
        if unused and not self.is_bucket:
            raise ValueError(f"{', '.join(unused)}: only for a path in a bucket, such as s3://bucket/lake")
        of_s3 = [name for name in ("region", "path_style") if name in self.model_fields_set]
        if of_s3 and not str(self.path).startswith("s3://"):
            raise ValueError(f"{', '.join(of_s3)}: only for a bucket on S3")
        return self

    def below(self, root: Path) -> Self:
        """With a path that does not depend on the current folder. root: of relative paths."""
        path = self.path if self.local_path is None else root / self.local_path
        catalog = None if self.catalog is None else self.catalog.below(root)
        kafka = None if self.kafka is None else self.kafka.below(root)
        database = None if self.database is None else self.database.below(root)
        writer = None if self.writer is None else self.writer.below(root)
        places = {"path": path, "catalog": catalog, "kafka": kafka, "database": database, "writer": writer}
        return self.model_copy(update=places)

    @property
    def is_bucket(self) -> bool:
        """Whether the place is in a bucket."""
        return "path" in self.model_fields_set and isinstance(self.path, str) and not self.has_no_folder

    @property
    def has_no_folder(self) -> bool:
        """Whether it is topics of Kafka, or tables of a database, without a folder for files, as a further sink is."""
        return str(self.path).startswith(_OF_SERVERS)

    @property
    def local_path(self) -> Path | None:
        """The folder; None if the place is in a bucket."""
        return self.path if isinstance(self.path, Path) else None

    def overlaps(self, other: "Sink") -> bool:
        """Whether one of the places is in the other. Buckets of one name count as one, whatever their endpoints."""
        return overlap(self.path, other.path)

    @property
    def folder(self) -> "Folder":
        """The place as a folder."""
        return folder_at(str(self.path), self.endpoint, self.region, path_style=self.path_style)

    @property
    def quick_folder(self) -> "Folder":
        """The same place; requests to a bucket give up after seconds."""
        return folder_at(str(self.path), self.endpoint, self.region, path_style=self.path_style, quick=True)

    def merging(self, database: str, table: str, approx_bytes: int) -> Merging:
        """How changes are merged into a new mirror. approx_bytes: the source's estimate of the table's size."""
        mode = self.mirror
        for glob, rules in self.tables.items():
            if matches(glob, database, table) and rules.mirror is not None:
                mode = rules.mirror
        if mode == "auto":
            return "merge_on_read" if approx_bytes >= AUTO_BYTES else "copy_on_write"
        return mode

    def iceberg_version(self, database: str, table: str) -> Literal[2, 3] | None:
        """The version of the Iceberg table that a table can be read as; None if it is not published as one."""
        formats, version = self.formats, self.iceberg
        for glob, rules in self.tables.items():
            if matches(glob, database, table):
                formats = formats if rules.formats is None else rules.formats
                version = version if rules.iceberg is None else rules.iceberg
        if "iceberg" not in formats:
            return None
        return 3 if version == "v3" else 2

    @property
    def has_mirrors(self) -> bool:
        """Whether the destination keeps mirrors and change logs, which are merged, maintained, audited and queried."""
        return self.type == "delta"

    def require_mirrors(self, what: str) -> None:
        """Raises SpecError for a destination without mirrors. what: needs them, such as "An audit"."""
        if not self.has_mirrors:
            raise SpecError(
                f'{what} needs a destination with mirrors; type = "{self.type}" has none that Tidemark reads back.',
                detail="Nothing was done.",
                hint='Use a pipeline with type = "delta". Other tools read this one: docs/destinations.md.',
            )

    @property
    def changes_retention_s(self) -> float | None:
        """`changes_retention` in seconds; None for ever."""
        return None if self.changes_retention == "forever" else period_s(self.changes_retention)

    @property
    def files_retention_s(self) -> float:
        """`files_retention` in seconds."""
        return period_s(self.files_retention)


def table_formats_of(sink: Sink) -> tuple[TableFormat, ...]:
    """The formats that some table can be read in."""
    chosen = {*sink.formats, *(one for rules in sink.tables.values() for one in rules.formats or ())}
    return tuple(one for one in TABLE_FORMATS if one in chosen) if sink.has_mirrors else ()


def require_format(sink: Sink, table_format: TableFormat, database: str, table: str) -> None:
    """Raises SpecError if a table is not published in a format."""
    if table_format == "iceberg" and sink.iceberg_version(database, table) is None:
        raise SpecError(
            f"{database}.{table} is not published as an Iceberg table.",
            detail="Nothing was read.",
            hint='Publish it: formats = ["delta", "iceberg"] in [sink], or for the table. Then start the pipeline.',
        )


def require_same_everywhere(state: str, sinks: Iterable[Sink], spec_file: Path) -> None:
    """Raises SpecError for relative paths of sinks, and for places within the state or around it.

    state: the URL of the pipeline's state. Each host would have a folder of its own for a relative path.
    """
    all_sinks = list(sinks)
    paths = [one.local_path for one in all_sinks if one.local_path is not None]
    relative = [str(one) for one in paths if not one.is_absolute()]
    if relative:
        raise SpecError(
            f"{spec_file} has its state in a bucket, and a sink with a relative path: {', '.join(relative)}.",
            detail="Each host would have a folder of its own; nothing was started.",
            hint="Give the sink a place in a bucket, or an absolute path that all hosts share.",
        )
    if any(overlap(state, one.path) for one in all_sinks):
        raise SpecError(
            f"{spec_file} has its state and a sink in one place: {state}.",
            detail="Their files would be mixed; nothing was started.",
            hint="Give each a place of its own, outside of the other, such as s3://bucket/state/shop and "
            "s3://bucket/lake.",
        )


def overlap(one: Path | str, other: Path | str) -> bool:
    """Whether one of two places, folders or URLs, is in the other."""
    mine, theirs = _parts(one), _parts(other)
    shorter = min(len(mine), len(theirs))
    return mine[:shorter] == theirs[:shorter]


def _parts(place: Path | str) -> tuple[str, ...]:
    return place.resolve().parts if isinstance(place, Path) else tuple(place.split("/"))


def is_read_back(sink: Sink) -> bool:
    """Whether Tidemark reads the rows of the tables back: to verify them, and to redump parts of them."""
    return sink.has_mirrors or sink.database is not None


def require_section(sink: Sink) -> None:
    """Raises ValueError for a sink without the section that its type needs."""
    if sink.type == "kafka" and sink.kafka is None:
        raise ValueError('[sink.kafka]: missing; type = "kafka" needs its servers')
    if sink.type in WRITER_TYPES and sink.writer is None:
        raise ValueError(f'[sink.writer]: missing; type = "{sink.type}" needs it')
    if sink.type in DATABASE_TYPES and sink.database is None:
        raise ValueError(f'[sink.database]: missing; type = "{sink.type}" needs its server and login')
