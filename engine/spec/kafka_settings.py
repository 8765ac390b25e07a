"""`[sink.kafka]`: the brokers, topics and messages of a Kafka destination."""

import re
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from engine.spec.periods import period_s
from engine.spec.registry_settings import RegistrySettings
from engine.spec.secrets import secret
from engine.spec.section import Section

MessageFormat = Literal[
    "debezium-json", "changelog-json", "canal-json", "maxwell-json", "json", "debezium-avro", "avro", "json-schema"
]
REGISTERED: tuple[MessageFormat, ...] = ("debezium-avro", "avro", "json-schema")
"""Formats whose schemas are in a registry."""
ROW_FORMATS: tuple[MessageFormat, ...] = ("json", "avro", "json-schema")
"""Formats whose messages are rows: one without a value deletes."""
_TOPIC = re.compile(r"(?:[A-Za-z0-9._\-]|\{database\}|\{table\})+")
_SERVERS = re.compile(r"[^\s,/@]+:\d{1,5}(?:,[^\s,/@]+:\d{1,5})*")


class KafkaSettings(Section):
    """The brokers, topics and messages of `type = "kafka"` ([Kafka](kafka.md))."""

    servers: str
    """The brokers to begin with: `broker1:9092,broker2:9092`."""
    topic: str = "{database}.{table}"
    """The topic of a table; `{database}` and `{table}` stand for its names. A name without them is one topic for all
    tables. In names, characters that Kafka does not accept become `_`."""
    format: MessageFormat = "debezium-json"
    """What a message is ([Messages](kafka.md#messages))."""
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    """`exactly_once`: an epoch is a transaction. `at_least_once`: messages are there once they are sent, and after an
    error or a kill some come again ([At least once](kafka.md#at-least-once))."""
    timestamps: Literal["sql", "iso"] = "sql"
    """How DATETIME and TIMESTAMP are written: `2026-01-31 12:30:00.5` or `2026-01-31T12:30:00.5`; a TIMESTAMP is in
    UTC, and has a `Z` at its end."""
    tombstones: bool = False
    """Whether each deletion is followed by a message without a value, by which compaction removes the key."""
    headers: bool = True
    """Whether messages have [headers](kafka.md#headers): table, kind, epoch, position, GTID, sequence."""
    create_topics: bool = True
    """Whether topics are created. If not, a table whose topic is not there stops."""
    existing_topics: Literal["refuse", "append"] = "refuse"
    """What happens when a table joins whose topic has messages that this pipeline has not sent."""
    partitions: int = Field(1, ge=1, le=100_000)
    """The partitions of a new topic. All messages of a key are in one partition, in order."""
    replication: int = Field(-1, ge=-1)
    """The replicas of a new topic. -1: as the broker has it."""
    retention: str | None = None
    """How long a new topic keeps messages, such as `7d`, or `forever`. By default as the broker has it."""
    compaction: bool = False
    """Whether a new topic is compacted: of each key, the last message stays."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    """How batches of messages are compressed."""
    max_message_bytes: int = Field(1 << 20, ge=1 << 10, le=1 << 30)
    """The largest message. New topics take it; the broker must, too. A table with a larger row stops."""
    transaction_timeout_s: int = Field(900, ge=10)
    """How long a transaction may last. At most `transaction.max.timeout.ms` of the brokers, by default 900 s."""
    security: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    """How the brokers are reached: with TLS, with a login by SASL, or both."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """How the login is made."""
    user: str | None = None
    """The user of the login."""
    password_env: str | None = None
    """The environment variable that contains its password. It beats the file."""
    password_file: Path | None = None
    """The file that contains it."""
    ca: Path | None = None
    """The certificates of the authorities that may sign those of the brokers. By default, those of the system."""
    registry: RegistrySettings | None = None
    """The registry of the schemas of `avro`, `debezium-avro` and `json-schema` ([Schemas](kafka.md#schemas))."""
    certificate: Path | None = None
    """The certificate by which the brokers know this client, with `key`."""
    key: Path | None = None
    """Its private key, without a password."""

    @field_validator("servers")
    @classmethod
    def _addresses(cls, value: str) -> str:
        if not _SERVERS.fullmatch(value):
            raise ValueError(f"{value!r} is not of the form broker1:9092,broker2:9092")
        return value

    @field_validator("topic")
    @classmethod
    def _name(cls, value: str) -> str:
        if not _TOPIC.fullmatch(value):
            raise ValueError(
                f"{value!r} is no rule for topics: ASCII letters, digits, `.`, `_`, `-`, {{database}} and {{table}}"
            )
        return value

    @field_validator("retention")
    @classmethod
    def _period(cls, value: str | None) -> str | None:
        if value not in (None, "forever"):
            period_s(value)
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        has_login = self.user is not None and (self.password_env or self.password_file)
        if self.security.startswith("sasl") and not has_login:
            raise ValueError(f'security = "{self.security}" needs user, and password_env or password_file')
        if not self.security.startswith("sasl") and (self.user or self.password_env or self.password_file):
            raise ValueError(f'security = "{self.security}" has no login: user and password are of no use')
        tls = [name for name in ("ca", "certificate", "key") if getattr(self, name) is not None]
        if tls and not self.security.endswith("ssl"):
            raise ValueError(f'security = "{self.security}" has no TLS: {", ".join(tls)} is of no use')
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together")
        if self.has_one_topic and (self.compaction or self.tombstones):
            raise ValueError(
                "compaction and tombstones need a topic for each table: rows of two tables may have the same key"
            )
        if (self.registry is not None) != (self.format in REGISTERED):
            needs = "needs" if self.registry is None else "has no use for"
            raise ValueError(f'format = "{self.format}" {needs} a [registry]')
        if self.compaction and self.format == "changelog-json":
            raise ValueError(
                'compaction with format = "changelog-json": it would keep a -U without its +U; choose another format'
            )
        return self

    @property
    def has_one_topic(self) -> bool:
        """Whether several tables may share a topic."""
        return "{table}" not in self.topic

    @property
    def place(self) -> str:
        """The URL that identifies the destination."""
        return f"kafka://{self.servers}/{self.topic}"

    def topic_of(self, database: str, table: str) -> str:
        """The topic of a table."""
        name = self.topic.replace("{database}", database).replace("{table}", table)
        return re.sub(r"[^A-Za-z0-9._\-]", "_", name)[:249]

    def secrets(self) -> list[tuple[str | None, Path | None]]:
        """The references to its secrets, for `spec.secrets.secret`."""
        of_registry = self.registry
        more = [] if of_registry is None else [(of_registry.password_env, of_registry.password_file)]
        return [(self.password_env, self.password_file), *more]

    def below(self, root: Path) -> Self:
        """With files that do not depend on the current folder. root: of relative paths."""
        names = ("password_file", "ca", "certificate", "key")
        files = {name: root / path for name in names if (path := getattr(self, name)) is not None}
        registry = None if self.registry is None else self.registry.below(root)
        return self.model_copy(update={**files, "registry": registry})

    def client(self) -> dict[str, Any]:
        """The settings of a client of librdkafka. Raises SpecError if a secret is missing."""
        settings: dict[str, Any] = {"bootstrap.servers": self.servers, "security.protocol": self.security}
        if self.security.startswith("sasl"):
            password = secret("sink.kafka.password", self.password_env, self.password_file)
            settings |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.username": self.user,
                "sasl.password": password,
            }
        files = {"ssl.ca.location": self.ca, "ssl.certificate.location": self.certificate, "ssl.key.location": self.key}
        return settings | {name: str(path) for name, path in files.items() if path is not None}
