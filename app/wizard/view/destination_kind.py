"""The kind of a new pipeline's destination: what it keeps, where, and what it lacks."""

from app.common.view.draft import Draft
from engine.spec.sink_settings import OF_MIRRORS

_PATH = ("sink", "type")
DELTA, PARQUET, KAFKA, POSTGRESQL, MYSQL, DUCKDB = "delta", "parquet", "kafka", "postgresql", "mysql", "duckdb"
PYTHON, SPARK = "python", "spark"
KINDS = {
    DELTA: "Delta tables",
    PARQUET: "Parquet files",
    KAFKA: "Kafka topics",
    POSTGRESQL: "PostgreSQL tables",
    MYSQL: "MySQL or MariaDB tables",
    DUCKDB: "Tables in a DuckDB file",
    PYTHON: "Calls of a Python function",
    SPARK: "Writes of Spark",
}
"""The values of `sink.type`, and their labels."""
KEEPS = {
    DELTA: "a mirror and a change log for each source table",
    PARQUET: "a change log for each source table, by date and hour",
    KAFKA: "a change log for each source table, as messages",
    POSTGRESQL: "the rows of each source table",
    MYSQL: "the rows of each source table",
    DUCKDB: "the rows of each source table",
    PYTHON: "what the function makes of the changes, at least once",
    SPARK: "what a writer of Spark makes of the changes, at least once",
}
DATABASES = {POSTGRESQL: 5432, MYSQL: 3306, DUCKDB: 0}
"""The kinds whose tables are in a database, and the usual ports; 0 for a file."""
DATABASE_SETTINGS = ("sink", "database")
FORMATS = {
    "": "Delta alone",
    "v3": "Delta and Iceberg v3, with deletion vectors",
    "v2": "Delta and Iceberg v2, with position deletes",
}
"""The formats that tables can be read in, by the version of Iceberg."""
FORMATS_HELP = (
    "Iceberg tables over the same files: nothing is stored twice. After each commit, about six small files of metadata "
    "are written. v2 is for engines that cannot read deletion vectors yet; its readers read more small files."
)
CATALOG = ("sink", "catalog")
CATALOGS = {"": "None: engines open tables by their paths", "rest": "Iceberg REST catalog", "sql": "SQL catalog"}
"""The values of `sink.catalog.type`, and their labels."""
CATALOG_HELP = (
    "Registers the Iceberg tables, so that engines find them, and each newer snapshot, by name. A SQL catalog is a "
    "database with the tables of pyiceberg's SqlCatalog and Iceberg's JdbcCatalog. The check of a pipeline asks it."
)
CATALOG_FIELDS = {
    "rest": ("URL of the catalog", "https://catalog.example.com/api/catalog", "Variable with its token", "token_env"),
    "sql": (
        "URL of the database",
        "postgresql+psycopg://user@host/catalog",
        "Variable with the password",
        "password_env",
    ),
}
"""By type: the label of the URL, an example, and the label and the setting of the secret."""
KAFKA_SETTINGS = ("sink", "kafka")
WRITER_SETTINGS = ("sink", "writer")
MESSAGES = {
    "debezium-json": "Debezium's JSON: before, after, source, op",
    "changelog-json": "changelog-json: a message for each +I, -U, +U, -D",
    "canal-json": "Canal's JSON",
    "maxwell-json": "Maxwell's JSON",
    "json": "Plain rows; a deletion is a message without a value",
    "debezium-avro": "Debezium's envelope in Avro, with a schema registry",
    "avro": "Rows in Avro, with a schema registry",
    "json-schema": "Rows in JSON, with a schema registry",
}
"""The values of `sink.kafka.format`, and their labels."""
FOLDER_REMEDY = "Choose another folder, or grant this user write permission."
REMEDIES = {
    PYTHON: "Correct the function's name in [sink.writer]. Its module must be beside the spec, or be importable here.",
    KAFKA: "Correct the brokers' addresses, or their settings in [sink.kafka]. They must be reached from this machine.",
    **dict.fromkeys(
        DATABASES,
        "Correct the server, the login or its password in [sink.database]. The server must be reached from this "
        "machine, and the login may create tables.",
    ),
}
"""What to do if a destination cannot be used, by kind."""
ANSWERS = {
    PYTHON: "the function is there · ",
    KAFKA: "the brokers answer · ",
    **dict.fromkeys(DATABASES, "the database answers · "),
}
"""What was found besides a folder that can be written, by kind."""
WITHOUT_MIRRORS = (
    "{} have no mirrors. So there is no verification, audit, query in Explore, backup, or redump of a part of a table."
)
IN_DATABASES = "{} are verified, and redumped in parts. There is no change log: no audit, query in Explore, or backup."
_ICEBERG_LAYOUT = (
    "├── <database>/<table>                     the mirror\n"
    "├── <database>/<table>__iceberg            the same as an Iceberg table\n"
    "├── <database>/<table>__changes            the change log\n"
    "└── <database>/<table>__changes__iceberg   the same as an Iceberg table"
)
_LAYOUTS = {
    DELTA: "├── <database>/<table>            the mirror\n└── <database>/<table>__changes   the change log",
    PARQUET: (
        "├── <database>/<table>        the change log\n"
        "│   └── date=…/hour=…/*.parquet\n"
        "└── _manifests/<epoch>.json   what is published"
    ),
    **dict.fromkeys(
        (PYTHON, SPARK),
        "├── _progress/<database>/<table>.json   the epochs that were written\n"
        "└── _staged/<database>/<table>          files, until they are given",
    ),
    **dict.fromkeys((KAFKA, *DATABASES), "└── _staged/<database>/<table>   files, until they are sent"),
}


def kind_of(draft: Draft) -> str:
    """The value of `sink.type`."""
    return str(draft.get(*_PATH, default=DELTA))


def folder_label(draft: Draft) -> str:
    """What `sink.path` is called."""
    is_sent = kind_of(draft) in (KAFKA, *DATABASES)
    return "Folder for files until they are sent" if is_sent else "Destination folder"


def place(draft: Draft) -> str:
    """Where the tables are, for the summary: a folder, brokers, a server or a file; "" if that is not said yet."""
    kind = kind_of(draft)
    if kind == KAFKA:
        return str(draft.get(*KAFKA_SETTINGS, "servers", default=""))
    if kind in DATABASES:
        return str(draft.get(*DATABASE_SETTINGS, "host" if DATABASES[kind] else "file", default=""))
    return str(draft.get("sink", "path", default=""))


def has_mirrors(draft: Draft) -> bool:
    """Whether the destination keeps mirrors."""
    return kind_of(draft) == DELTA


def with_kind(draft: Draft, kind: str) -> Draft:
    """The draft with a kind, without the settings that the kind has not."""
    if kind != kind_of(draft):
        draft = draft.put(*WRITER_SETTINGS, value=None)
    draft = draft.put(*_PATH, value=kind)
    if kind != KAFKA:
        draft = draft.put(*KAFKA_SETTINGS, value=None)
    is_server = DATABASES.get(kind, 0) > 0
    if kind not in DATABASES or is_server != (draft.get(*DATABASE_SETTINGS, "file", default=None) is None):
        draft = draft.put(*DATABASE_SETTINGS, value=None)
    if not has_mirrors(draft):
        for key in OF_MIRRORS:
            draft = draft.put("sink", key, value=None)
    return draft


def iceberg_of(draft: Draft) -> str:
    """The version of the Iceberg tables; "" without."""
    is_published = "iceberg" in draft.get("sink", "formats", default=[])
    return str(draft.get("sink", "iceberg", default="v3")) if is_published else ""


def with_iceberg(draft: Draft, version: str) -> Draft:
    """The draft with Iceberg tables of a version; "" for none."""
    draft = draft.put("sink", "formats", value=["delta", "iceberg"] if version else None)
    draft = draft if version else draft.put(*CATALOG, value=None)
    return draft.put("sink", "iceberg", value=version if version == "v2" else None)


def catalog_of(draft: Draft) -> str:
    """The type of the catalog; "" without."""
    return str(draft.get(*CATALOG, "type", default=""))


def with_catalog(draft: Draft, kind: str) -> Draft:
    """The draft with a catalog of a type; "" for none. What was said of another type goes."""
    draft = draft.put(*CATALOG, value=None)
    return draft.put(*CATALOG, "type", value=kind) if kind else draft


def layout(draft: Draft) -> str:
    """What is written below the destination folder, as a tree."""
    return _ICEBERG_LAYOUT if iceberg_of(draft) else _LAYOUTS.get(kind_of(draft), "")
