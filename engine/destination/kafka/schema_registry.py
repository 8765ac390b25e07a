"""The registry of schemas: gives a schema its identifier, with which each message begins.

Source: Confluent, "Schema Registry API Reference" and "Wire format". Apicurio has the same interface.
"""

import json
import ssl
import struct
import threading
import weakref
from typing import Any, Literal
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from engine.base import clock
from engine.base.errors import DestinationError
from engine.base.redaction import redact
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.spec.registry_settings import RegistrySettings
from engine.spec.secrets import secret

_TIMEOUT = httpx.Timeout(15.0, connect=5.0)
_HEADERS = {
    "Content-Type": "application/vnd.schemaregistry.v1+json",
    "Accept": "application/vnd.schemaregistry.v1+json",
}
_MAGIC = b"\x00"
PREFIX_BYTES = 5
_FOR_NOW = (408, 429)
_FRESH_S = 300.0
"""How long the number of a schema is taken from memory: a registry may have lost its data."""
SchemaType = Literal["AVRO", "JSON"]


class _Registered(BaseModel):
    id: int


class _StoredSchema(BaseModel):
    schema_: str

    model_config = {"alias_generator": lambda name: name.rstrip("_")}


class _Refusal(BaseModel):
    message: str = ""


class SchemaRegistry:
    """Several threads may use it. Raises SpecError if a secret is missing."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._place = settings.url
        login = None
        if settings.user is not None:
            password = secret("sink.kafka.registry.password", settings.password_env, settings.password_file)
            login = httpx.BasicAuth(settings.user, password or "")
        verify = True if settings.ca is None else ssl.create_default_context(cafile=str(settings.ca))
        self._http = httpx.Client(timeout=_TIMEOUT, auth=login, verify=verify, headers=_HEADERS)
        weakref.finalize(self, self._http.close)
        self._ids: dict[tuple[str, str], tuple[int, float]] = {}
        """With the time until which they are taken (`clock.monotonic_s`)."""
        self._schemas: dict[int, Any] = {}
        self._lock = threading.Lock()

    def prefix(self, subject: str, schema: Any, kind: SchemaType) -> bytes:
        """What a message with a schema begins with. The schema is registered if it is new.

        Raises DestinationError if the registry refuses it; StoreAwayError, StoreAccessError.
        """
        text = json.dumps(schema, ensure_ascii=False)
        with self._lock:
            number, until_s = self._ids.get((subject, text), (0, 0.0))
            if clock.monotonic_s() >= until_s:  # registering it again changes nothing if it is there
                body = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
                path = f"/subjects/{quote(subject, safe='')}/versions"
                answer = self._request("POST", path, f"the schema of {subject}", body)
                number = _Registered.model_validate_json(answer).id
                self._ids[subject, text] = number, clock.monotonic_s() + _FRESH_S
            return _MAGIC + struct.pack(">I", number)

    def schema_of(self, message: bytes) -> Any:
        """The schema of a message. Raises as `prefix`, and DestinationError for a message without one."""
        if len(message) < PREFIX_BYTES or message[:1] != _MAGIC:
            raise DestinationError(
                "A message does not begin with the number of its schema.",
                detail="It was sent in another format. Nothing was sent.",
                hint="Give the sink a topic of its own: remove it from the spec, and add it with another topic rule.",
            )
        (number,) = struct.unpack(">I", message[1:PREFIX_BYTES])
        with self._lock:
            if number not in self._schemas:
                answer = self._request("GET", f"/schemas/ids/{number}", f"schema {number}")
                self._schemas[number] = json.loads(_StoredSchema.model_validate_json(answer).schema_)
            return self._schemas[number]

    def ask(self) -> None:
        """Raises StoreAwayError or StoreAccessError if it does not answer, or refuses the login."""
        self._request("GET", "/subjects", "the subjects")

    def _request(self, method: str, path: str, what: str, body: Any = None) -> bytes:
        try:
            answer = self._http.request(method, f"{self._place}{path}", json=body)
        except httpx.HTTPError as error:
            raise StoreAwayError(f"The schema registry does not answer: {self._place}: {error}") from error
        if answer.is_success:
            return answer.content
        try:
            said = _Refusal.model_validate_json(answer.content).message
        except ValidationError:
            said = answer.text
        why = f"HTTP {answer.status_code}: {redact(said)[:300]}"
        if answer.status_code in (401, 403):
            raise StoreAccessError(f"The schema registry refuses the login: {self._place}: {why}")
        if answer.is_client_error and answer.status_code not in _FOR_NOW:
            raise DestinationError(
                f"The schema registry {self._place} refuses {what}: {why}",
                detail="The table stops before this epoch; the others continue.",
                hint="If it refuses a schema, set the compatibility of its subject to one that permits it, such as "
                "NONE. Then resnapshot the table: tidemark redump SPEC --table …",
            )
        raise StoreAwayError(f"The schema registry cannot be used: {self._place}: {what}: {why}")
