"""Requests to a REST catalog, with its tokens.

Source: Apache Iceberg, "REST Catalog Open API"; RFC 6749, "Client Credentials Grant".
"""

import weakref
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import BaseModel, Field, ValidationError

from engine.base import clock
from engine.base.errors import SpecError
from engine.base.redaction import learn, redact
from engine.destination.iceberg.catalogs.catalog_protocol import CatalogError, CatalogName
from engine.spec.catalog_settings import CatalogSettings
from engine.spec.secrets import secret

_TIMEOUT = httpx.Timeout(20.0, connect=5.0)
_REST_S = 5.0
"""How long nobody asks a catalog that did not answer: many tables would wait for it one after the other."""
_EARLY_S = 60.0
"""How long before its end a token is fetched again."""
_REFUSED = (401, 403, 419)
_DETAIL = (
    "It is tried again every half minute. Readers of the catalog see the last commit that it has; those that read by "
    "path, and readers of the Delta table, see all."
)


_REACH = "Check that it runs, and that this host reaches it."


class _Settings(BaseModel):
    prefix: str = ""


class _Configuration(BaseModel):
    defaults: _Settings = _Settings()
    overrides: _Settings = _Settings()


class _TokenAnswer(BaseModel):
    access_token: str
    expires_in: float = 3600.0


class _Error(BaseModel):
    message: str = ""
    type: str = ""


class _ErrorAnswer(BaseModel):
    error: _Error = _Error()


class _Current(BaseModel):
    snapshot: int | None = Field(None, alias="current-snapshot-id")


class TableAnswer(BaseModel):
    """A table in the catalog."""

    metadata_location: str | None = Field(None, alias="metadata-location")
    metadata: dict[str, Any]

    @property
    def current_snapshot(self) -> int | None:
        """The identifier of the newest snapshot; None without one."""
        return _Current.model_validate(self.metadata).snapshot


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int
    content: bytes

    @property
    def is_good(self) -> bool:
        """Whether the catalog did what it was asked for."""
        return 200 <= self.status < 300

    @property
    def names_nothing(self) -> bool:
        """Whether the catalog has no table or no namespace of that name."""
        return self.status == 404 and self._error.type.startswith("NoSuch")

    @property
    def message(self) -> str:
        """What the catalog says of an error."""
        return redact(self._error.message or self.content.decode(errors="replace"))[:300]

    @property
    def _error(self) -> _Error:
        try:
            return _ErrorAnswer.model_validate_json(self.content).error
        except ValidationError:
            return _Error()


class RestClient:
    """Several threads may use it."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self._http = httpx.Client(timeout=_TIMEOUT, follow_redirects=False)
        weakref.finalize(self, self._http.close)
        self._base_path = ""
        """The path that all others begin with; empty if it is not known yet."""
        self._token = ""
        self._token_ends_s = 0.0
        self._rests_until_s = 0.0
        self._silence = ""
        """Why it did not answer last."""

    def namespaces_path(self) -> str:
        """Of the namespaces."""
        return f"{self._base()}/namespaces"

    def namespace_path(self, name: CatalogName) -> str:
        """Of the namespace of a table."""
        return f"{self.namespaces_path()}/{quote(name.namespace, safe='')}"

    def table_path(self, name: CatalogName) -> str:
        """Of a table."""
        return f"{self.namespace_path(name)}/tables/{quote(name.table, safe='')}"

    def request(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, accepts: tuple[int, ...] = ()
    ) -> Answer:
        """The answer to a request with credentials.

        accepts: statuses other than success that are no errors. Raises CatalogError for all others, and if there is no
        answer.
        """
        answer = self._send(method, path, body)
        if answer.status == 401:
            self._token = ""  # it may have ended early
            answer = self._send(method, path, body)
        if answer.is_good or answer.status in accepts:
            return answer
        if 300 <= answer.status < 400:
            raise self.error(f"sends requests elsewhere (HTTP {answer.status})", "Set sink.catalog.uri to that place.")
        if answer.status in _REFUSED:
            raise self.error(
                f"refuses the credentials (HTTP {answer.status}): {answer.message}",
                "Check the token, or the client and its secret, and what they may do there: create namespaces, and "
                "create, register, change and drop tables.",
            )
        raise self.error(f"refuses a request (HTTP {answer.status}): {answer.message}", "See the catalog's log.")

    def _base(self) -> str:
        """The path that all others begin with, which the catalog's configuration may extend."""
        if not self._base_path:
            warehouse = self._settings.warehouse
            query = "" if warehouse is None else f"?warehouse={quote(warehouse, safe='')}"
            answer = self.request("GET", f"/v1/config{query}")
            try:
                configuration = _Configuration.model_validate_json(answer.content)
            except ValidationError:
                raise self.error(
                    "is no Iceberg REST catalog: its configuration cannot be read",
                    "Check sink.catalog.uri: it is the URL before /v1.",
                ) from None
            prefix = configuration.overrides.prefix or configuration.defaults.prefix
            self._base_path = f"/v1/{prefix.strip('/')}" if prefix.strip("/") else "/v1"
        return self._base_path

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> Answer:
        return self._answer(method, f"{self._settings.uri}{path}", self._authorization(), json=body)

    def _answer(self, method: str, url: str, headers: dict[str, str], **content: Any) -> Answer:
        if clock.monotonic_s() < self._rests_until_s:
            raise self.error(f"does not answer: {self._silence}", _REACH)
        try:
            response = self._http.request(method, url, headers=headers, **content)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            self._silence = redact(str(error)) or type(error).__name__
            self._rests_until_s = clock.monotonic_s() + _REST_S
            raise self.error(f"does not answer: {self._silence}", _REACH) from error
        return Answer(response.status_code, response.content)

    def error(self, what: str, hint: str) -> CatalogError:
        """The error of a catalog that does not do what it is asked for. what: the rest of the sentence."""
        return CatalogError(f"The Iceberg REST catalog {self._settings.uri} {what}", detail=_DETAIL, hint=hint)

    def _authorization(self) -> dict[str, str]:
        settings = self._settings
        token = secret("sink.catalog.token", settings.token_env, settings.token_file)
        if settings.client_id is not None:
            token = self._token
            if not token or clock.monotonic_s() > self._token_ends_s:
                token = self._token = self._fetched_token(settings.client_id)
        return {} if token is None else {"Authorization": f"Bearer {token.strip()}"}

    def _fetched_token(self, client_id: str) -> str:
        settings = self._settings
        value = secret("sink.catalog.client_secret", settings.client_secret_env, settings.client_secret_file)
        if not value:
            raise SpecError("The client's secret of sink.catalog is empty.", hint="Set it, or remove the keys.")
        form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": value.strip(),
            "scope": settings.scope,
        }
        url = settings.oauth2_server_uri or f"{settings.uri}/v1/oauth/tokens"
        answer = self._answer("POST", url, {}, data=form)
        try:
            token = _TokenAnswer.model_validate_json(answer.content)
        except ValidationError:
            raise self.error(
                f"gives no token (HTTP {answer.status} from {url}): {answer.message}",
                "Check sink.catalog.client_id, its secret, scope and oauth2_server_uri.",
            ) from None
        learn(token.access_token)
        life_s = token.expires_in
        self._token_ends_s = clock.monotonic_s() + max(life_s - _EARLY_S, life_s / 2)
        return token.access_token
