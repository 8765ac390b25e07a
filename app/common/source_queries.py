"""The source queries of the new pipeline's steps.

Each function runs in a job's thread and opens and closes its own connection.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from app.common import home
from app.common.view.draft import Draft
from app.common.view.picking import Badge, projected, risks
from app.common.view.template import toml
from engine.base.errors import TidemarkError
from engine.decode.schema import Table
from engine.plan.chunks import Plan
from engine.plan.planner import plan_tables
from engine.plan.speed import bytes_per_s
from engine.source.catalog import captured_tables
from engine.source.change_rates import ChangeRates, recent_changes
from engine.source.connect import Connection, Server, describe, open_connection, query
from engine.source.endpoint import at_source, endpoint_of
from engine.source.preflight import Preflight, run_preflight, server_preflight
from engine.source.survey import Surveyed, survey
from engine.spec.case_folding import spec_on
from engine.spec.globs import EXACT, NameRule
from engine.spec.settings import Snapshot, Spec, parse

EVERYTHING = "*.*"
PlanKey = tuple[str, str]
"""A table's full name, and its rules as JSON."""


@dataclass(frozen=True)
class Greeting:
    """The answer to a connection test."""

    server: Server
    account: str
    """The account that the server matched, `user@host`."""
    tls: str
    """The cipher; empty without TLS."""
    host: str
    """The server's own host name."""
    databases: int
    """How many databases have a table that the user may read."""
    tables: int
    """How many tables the user may read."""


@dataclass(frozen=True)
class Catalog:
    """All tables that the user may see."""

    tables: list[Surveyed]
    risks: dict[str, list[Badge]]
    """By the table's full name; without projections."""
    names: NameRule
    """How the server compares names."""


@dataclass
class PlanCache:
    """The plans of a draft, kept so that an edit of one table plans only that table again."""

    tables: list[Table] = field(default_factory=list)
    plans: dict[PlanKey, Plan | TidemarkError] = field(default_factory=dict)
    """By `rules_key`; an error for a table that cannot be planned."""
    speed: float | None = None
    """Bytes per second of one reader; None until it is measured."""
    changes: ChangeRates | None = None
    """How often the tables change; None until it is measured."""
    names: NameRule = EXACT
    """How the server compares names."""


def spec_of(draft: Draft) -> Spec:
    """The draft as a spec, with a placeholder for the name and all tables if they are not set yet. Raises SpecError."""
    whole = draft if draft.name else draft.put("name", value="draft")
    if not whole.get("source", "tables"):
        whole = whole.put("source", "tables", value=[EVERYTHING])
    return parse(toml(whole.spec), home.home() / whole.name / "pipeline.toml")


@contextmanager
def _connected(spec: Spec) -> Iterator[Connection]:
    with closing(open_connection(endpoint_of(spec.source))) as connection:
        yield connection


def greet(spec: Spec) -> Greeting:
    """Log in and ask the server for its identity. Raises SpecError, PreflightError or TransientError."""
    with _connected(spec) as connection:
        server = describe(connection)
        (who,) = query(connection, "SELECT CURRENT_USER() AS account, @@hostname AS host")
        cipher = [row["Value"] for row in query(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")]
        (counts,) = query(
            connection,
            "SELECT COUNT(*) AS n, COUNT(DISTINCT TABLE_SCHEMA) AS d FROM information_schema.TABLES WHERE TABLE_TYPE = "
            "'BASE TABLE' AND TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')",
        )
        return Greeting(server, who["account"], (cipher or [""])[0], who["host"], int(counts["d"]), int(counts["n"]))


def preflight(spec: Spec, *, has_tables: bool) -> Preflight:
    """The checks of `check`; without chosen tables, only those of the server."""
    endpoint, first = endpoint_of(spec.source), spec.first_server_id()
    if not has_tables:
        return server_preflight(endpoint, spec.source, first)
    spec = at_source(spec)
    return run_preflight(
        endpoint, spec.source, first, lambda t: projected(t, spec.projection_rules(t.database, t.name))
    )


def surveyed(spec: Spec) -> Catalog:
    """All tables that the user may see."""
    with _connected(spec) as connection:
        server = describe(connection)
        catalog = survey(connection, server)
    return Catalog(catalog, risks(catalog), server.names)


def rules_key(table: Table, snapshot: Snapshot) -> PlanKey:
    """The key of a table's plan: its name, and the rules for splitting it."""
    return table.full_name, snapshot.rules(table.database, table.name).model_dump_json()


def plan(spec: Spec, cache: PlanCache) -> PlanCache:
    """Add the missing plans, and measure the read speed and the change rates once. Raises as `plan_tables`."""
    with _connected(spec) as connection:
        cache.names = describe(connection).names
        spec = spec_on(spec, cache.names)
        if not cache.tables:
            null_dates = spec.source.invalid_dates == "null"
            cache.tables = captured_tables(connection, spec.source.tables, null_dates=null_dates)
        missing = [t for t in cache.tables if rules_key(t, spec.snapshot) not in cache.plans]
        faults: dict[str, TidemarkError] = {}
        new_plans = plan_tables(connection, missing, spec.snapshot, stopped=faults)  # type: ignore[arg-type]
        plans = {p.table: p for p in new_plans}
        for table in missing:
            name = table.full_name
            cache.plans[rules_key(table, spec.snapshot)] = plans.get(name) or faults[name]
        if cache.speed is None and plans:
            pairs = [(t, plans[t.full_name]) for t in missing if t.full_name in plans]
            cache.speed = bytes_per_s(connection, [t for t, _ in pairs], [p for _, p in pairs])
    if cache.changes is None:
        cache.changes = recent_changes(endpoint_of(spec.source), spec.first_server_id(), cache.tables)
    return cache


def key_of(draft: Draft, *more: object) -> str:
    """The key of a job: the connection settings, and anything else that the result depends on."""
    parts = [draft.fingerprint("Connect"), *more]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:20]
