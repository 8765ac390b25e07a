"""The `[alerts]` of a spec: thresholds, thresholds of some tables, and the routes that alerts take."""

import difflib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from engine.journal.alert_kinds import ALERTS
from engine.spec.globs import including, matches
from engine.spec.section import Section

Severity = Literal["critical", "warning"]
CRITICAL = frozenset(
    {
        "runway",
        "table_stopped",
        "diverged",
        "mirror_unreadable",
        "mirror_written",
        "change_log_differs",
        "binlog_filter",
        "run_failed",
        "route_unreachable",
        "runner_lost",
        "runner_frozen",
        "not_restarted",
        "source_away",
        "login_refused",
        "privileges_missing",
        "disk_full",
        "store_away",
        "store_refused",
    }
)
"""Kinds of alerts that are critical by default: rows are wrong, cannot be read, or do not arrive. All others are
warnings."""
_ROUTE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_COMMON = {"type", "severities"}
_OF_TYPE = {
    "webhook": {"url_env", "url_file"},
    "slack": {"url_env", "url_file"},
    "pagerduty": {"key_env", "key_file", "endpoint"},
    "email": {
        *("host", "port", "tls", "tls_ca", "user", "password_env", "password_file"),
        *("sender", "recipients"),
    },
}
_PATHS = ("url_file", "key_file", "password_file", "tls_ca")


class Route(Section):
    """A route: alerts of these severities go to this receiver.

    Secrets are in a variable or a file, never in the spec.
    """

    type: Literal["webhook", "slack", "pagerduty", "email"]
    """`webhook`: JSON to any URL. `slack`: an incoming webhook of Slack. `pagerduty`: Events API v2. `email`: by SMTP.
    """
    severities: tuple[Severity, ...] = ("critical", "warning")
    """Which alerts take this route."""
    url_env: str | None = None
    """`webhook`, `slack`: the environment variable that contains the URL."""
    url_file: Path | None = None
    """`webhook`, `slack`: the file that contains the URL. It is read again for each message, like all files of a route.
    """
    key_env: str | None = None
    """`pagerduty`: the environment variable that contains the integration key."""
    key_file: Path | None = None
    """`pagerduty`: the file that contains the integration key."""
    endpoint: str = "https://events.pagerduty.com/v2/enqueue"
    """`pagerduty`: the URL of the Events API, such as `https://events.eu.pagerduty.com/v2/enqueue`."""
    host: str | None = None
    """`email`: the SMTP server."""
    port: int = Field(587, ge=1, le=65535)
    """`email`: its port."""
    tls: Literal["starttls", "tls", "off"] = "starttls"
    """`email`: how the connection is encrypted; certificates are always verified. With `off`, no password is sent."""
    tls_ca: Path | None = None
    """`email`: the file with the certificate authority. By default, the system's authorities."""
    user: str | None = None
    """`email`: the user to log in as. Not set: no login."""
    password_env: str | None = None
    """`email`: the environment variable that contains the password."""
    password_file: Path | None = None
    """`email`: the file that contains the password."""
    sender: str | None = None
    """`email`: the address that the mails come from."""
    recipients: tuple[str, ...] = ()
    """`email`: the addresses that they go to."""

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        foreign = sorted(self.model_fields_set - _COMMON - _OF_TYPE[self.type])
        if foreign:
            raise ValueError(f"{', '.join(foreign)} does not belong to a route of the type {self.type}")
        url: dict[str, object] = {"url_env or url_file": self.url_env or self.url_file}
        needed: dict[str, dict[str, object]] = {
            "webhook": url,
            "slack": url,
            "pagerduty": {"key_env or key_file": self.key_env or self.key_file},
            "email": {"host": self.host, "sender": self.sender, "recipients": self.recipients},
        }
        if missing := [name for name, value in needed[self.type].items() if not value]:
            raise ValueError(f"a route of the type {self.type} needs {', '.join(missing)}")
        if self.user and not (self.password_env or self.password_file):
            raise ValueError("user needs password_env or password_file")
        if self.user and self.tls == "off":
            raise ValueError('a password is not sent without encryption: set tls = "starttls" or "tls"')
        return self

    @field_validator("endpoint")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        if not re.fullmatch(r"https?://[^\s/?#@]+(/\S*)?", value):
            raise ValueError("it is no URL that begins with https://")
        return value

    @field_validator("sender", "recipients")
    @classmethod
    def _addresses(cls, value: Any) -> Any:
        for address in (value,) if isinstance(value, str) else value or ():
            if not re.fullmatch(r"[^\s@<>,;]+@[^\s@<>,;]+", address):
                raise ValueError(f"{address!r} is not a mail address")
        return value


class TableAlerts(Section):
    """Thresholds of some tables. Keys that are not set are inherited from `[alerts]`."""

    lag_s: float | None = Field(None, gt=0)
    """Lag behind the source, in seconds, above which an alert fires for the tables of this glob."""
    mirror_behind_s: float | None = Field(None, gt=0)
    """An alert fires if a destination has lacked committed changes of such a table for longer than this."""


class Alerts(Section):
    """Thresholds of alerts.

    A stopped table and other conditions without one always fire ([Alerts](operations.md#alerts)).
    """

    lag_s: float | None = Field(None, gt=0)
    """Lag behind the source, in seconds, above which an alert fires. Not set: no alert."""
    lag_bytes: int | None = Field(None, gt=0)
    """Lag behind the source, in bytes of binlog, above which an alert fires. Not set: no alert."""
    runway_s: float = Field(6 * 3600.0, ge=0)
    """An alert fires if the source will purge the committed position in less than this. 0: no alert."""
    mirror_behind_s: float = Field(900.0, gt=0)
    """An alert fires if a destination has lacked committed changes of a table for longer than this."""
    disk_filling_s: float = Field(24 * 3600.0, ge=0)
    """An alert fires if the destination's disk is full in less than this, at the growth of the last day. 0: no alert.
    """
    for_s: float = Field(60.0, ge=0)
    """Seconds above the threshold before an alert fires, and below it before it clears."""
    repeat_s: float = Field(4 * 3600.0, ge=60)
    """Time after which an alert that has not cleared is repeated."""
    tables: dict[str, TableAlerts] = Field(default_factory=dict)
    """Thresholds of some tables, by glob. The last match wins."""
    severity: dict[str, Severity] = Field(default_factory=dict)
    """The severity of some kinds of alerts, where the default does not fit: kind to `critical` or `warning`."""
    routes: dict[str, Route] = Field(default_factory=dict)
    """Where alerts go, by a name that you choose ([Routes](operations.md#routes))."""
    webhook_env: str | None = None
    """The environment variable that contains the URL to post all alerts to: short for a route of the type `webhook`."""
    webhook_file: Path | None = None
    """The file that contains that URL."""

    @field_validator("tables")
    @classmethod
    def _table_globs(cls, value: dict[str, TableAlerts]) -> dict[str, TableAlerts]:
        return dict(including(value))

    @field_validator("severity")
    @classmethod
    def _kinds(cls, value: dict[str, Severity]) -> dict[str, Severity]:
        for kind in value:
            check_kind(kind)
        return value

    @model_validator(mode="after")
    def _route_names(self) -> Self:
        for name in self.routes:
            if not _ROUTE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name of a route: letters, digits, - and _, 32 at most")
        if "webhook" in self.routes and (self.webhook_env or self.webhook_file):
            raise ValueError(
                "webhook_env and webhook_file are the route 'webhook' already; give the other one another name"
            )
        return self

    def all_routes(self) -> dict[str, Route]:
        """The routes by name, with the one of `webhook_env` and `webhook_file`."""
        if not self.webhook_env and not self.webhook_file:
            return dict(self.routes)
        short = Route(type="webhook", url_env=self.webhook_env, url_file=self.webhook_file)
        return {"webhook": short, **self.routes}

    def variables(self) -> list[str]:
        """The environment variables that contain secrets of routes."""
        names_by_route = [(one.url_env, one.key_env, one.password_env) for one in self.all_routes().values()]
        return [name for names in names_by_route for name in names if name]

    def severity_of(self, kind: str) -> Severity:
        """The severity of a kind of alerts."""
        return self.severity.get(kind) or ("critical" if kind in CRITICAL else "warning")

    def lag_rule(self, table: str) -> str | None:
        """The glob whose `lag_s` counts for a table (`database.table`); None: that of the pipeline counts."""
        globs = [glob for glob, rule in self.tables.items() if rule.lag_s is not None and _selects(glob, table)]
        return globs[-1] if globs else None

    def mirror_behind_of(self, table: str) -> float:
        """The age of a change that the mirror of a table may lack."""
        rules = [rule.mirror_behind_s for glob, rule in self.tables.items() if _selects(glob, table)]
        return next((seconds for seconds in reversed(rules) if seconds is not None), self.mirror_behind_s)

    def shortest_mirror_behind_s(self) -> float:
        """The smallest of these ages."""
        own = [rule.mirror_behind_s for rule in self.tables.values() if rule.mirror_behind_s is not None]
        return min([self.mirror_behind_s, *own])

    def below(self, root: Path) -> "Alerts":
        """The same with absolute paths. root: what relative ones are relative to."""
        routes = {name: route.model_copy(update=_absolute(route, root)) for name, route in self.routes.items()}
        webhook = root / self.webhook_file if self.webhook_file is not None else None
        return self.model_copy(update={"routes": routes, "webhook_file": webhook})


def check_kind(kind: str) -> None:
    """Raises ValueError, which names the nearest kind, if there is no such kind of alerts."""
    if kind not in ALERTS:
        nearest = difflib.get_close_matches(kind, ALERTS, 1, 0.0)[0]
        raise ValueError(f"{kind!r} is not a kind of alerts; the nearest is {nearest!r}")


def _absolute(route: Route, root: Path) -> Mapping[str, Path]:
    return {name: root / path for name in _PATHS if (path := getattr(route, name)) is not None}


@lru_cache(maxsize=16_384)  # a monitor asks for each table that lacks changes, again and again
def _selects(glob: str, table: str) -> bool:
    """Whether a glob selects a full name, whose parts may contain dots."""
    dots = (n for n, character in enumerate(table) if character == ".")
    return any(matches(glob, table[:n], table[n + 1 :]) for n in dots)
