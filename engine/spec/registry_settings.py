"""`[sink.kafka.registry]`: the registry of the schemas of messages."""

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import field_validator, model_validator

from engine.spec.section import Section


class RegistrySettings(Section):
    """The schema registry of `format = "avro"`, `"debezium-avro"` and `"json-schema"` ([Schemas](kafka.md#schemas))."""

    url: str
    """Where Confluent's interface is, such as `https://registry:8081`. Apicurio has it under `/apis/ccompat/v7`."""
    user: str | None = None
    """The user of the login, or the key of an API key."""
    password_env: str | None = None
    """The environment variable that contains its password. It beats the file."""
    password_file: Path | None = None
    """The file that contains it."""
    ca: Path | None = None
    """The certificates of the authorities that may sign that of the registry. By default, those of the system."""

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise ValueError(f"{value!r} is no URL such as https://registry:8081, without a user")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if bool(self.user) != bool(self.password_env or self.password_file):
            raise ValueError("user, and password_env or password_file, belong together")
        return self

    def below(self, root: Path) -> Self:
        """With files that do not depend on the current folder. root: of relative paths."""
        names = ("password_file", "ca")
        return self.model_copy(
            update={name: root / path for name in names if (path := getattr(self, name)) is not None}
        )
