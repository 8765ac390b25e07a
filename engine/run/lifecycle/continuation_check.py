"""What `check` looks at beyond the source: places, inbox, routes, and whether a run could begin where the pipeline is.

A run that continues needs the position that the ledger has, and the tables that the ledger has published. A first one
needs places that nobody else uses. The run itself looks again (`run_start`, `takeover`).
"""

import uuid
from collections.abc import Callable
from contextlib import closing
from functools import partial

from engine.base.errors import TidemarkError
from engine.base.parallel import map_parallel
from engine.capture.projection.filter_parser import parse_where
from engine.capture.projection.projection_rules import check_asked, check_spec, with_other_projection
from engine.capture.projection.row_filter import collated_columns
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Table, table_from_dict
from engine.destination.agreement import compare, read_states
from engine.destination.capabilities import PublishesFormats
from engine.destination.destination_protocol import Destination
from engine.destination.registry import destination_of
from engine.ledger.state import Owner, State
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import find_runner
from engine.run.commands.inbox import Command, Inbox
from engine.run.lifecycle.destination_check import check_destination, check_state
from engine.run.lifecycle.inbox_check import check_inbox
from engine.run.lifecycle.route_check import check_routes
from engine.run.source_loss.failover import failed_over
from engine.run.tables.first_epoch import check_source, check_tables
from engine.run.tables.membership_commands import streamed_tables
from engine.run.tables.table_commands import everything, to_add, to_replace
from engine.source.connect import Endpoint, open_connection
from engine.source.hidden_tables import check_hidden
from engine.source.preflight import Check, Preflight
from engine.source.status_variables import check_status_variables
from engine.spec.settings import Spec


def check_all(spec: Spec, directory: Directory, endpoint: Endpoint, preflight: Preflight) -> list[Check]:
    """All of it. What a destination that cannot be written has is not looked at."""
    destination = check_destination(spec.sink)
    states = [check_state(spec.state)] if spec.state is not None else []
    checks = [destination, *map(check_destination, spec.sinks), *states]
    checks += [check_inbox(directory.inbox), *check_routes(spec.alerts)]
    if destination.outcome == "ok":
        checks += check_continuation(spec, directory, endpoint, preflight)
        checks += _catalog(spec, directory, preflight.tables)
    checks += _filters(spec, preflight.tables)
    return [*checks, *_select(directory, endpoint), *_load_variables(spec, endpoint)]


def check_projections(spec: Spec, directory: Directory, tables: list[Table], removed_tables: list[Table]) -> None:
    """Raises SpecError if the rules for rows and columns do not fit the tables of the catalog.

    A run that continues with the rules of the ledger does not ask: a column that they name may be dropped by now.
    """
    state = Ledger(directory.ledger).state
    if state is None or with_other_projection(spec, state) or any(t.full_name not in state.tables for t in tables):
        check_spec(spec, tables, removed_tables)


def _filters(spec: Spec, tables: list[Table]) -> list[Check]:
    """Warnings of row filters that compare texts otherwise than the server does."""
    checks = []
    for table in tables:
        where = spec.projection_rules(table.database, table.name).where
        compared = {} if where is None else collated_columns(parse_where(where, table), table)
        if compared:
            names = ", ".join(f"{name} ({collation})" for name, collation in compared.items())
            fix = "Name each spelling that is meant, such as region IN ('EU', 'eu'), or leave it if there is one."
            why = "The server takes texts for equal that differ in case, accents or spaces at their end."
            actual = f"exactly, also those of {names}"
            checks.append(Check(f"row filter of {table.full_name}", "warn", "compares texts", actual, why, fix))
    return checks


def _load_variables(spec: Spec, endpoint: Endpoint) -> list[Check]:
    names = [*spec.throttle.max_load, *spec.throttle.critical_load]
    if not names:
        return []
    with closing(open_connection(endpoint)) as connection:
        return [check_status_variables(connection, names)]


def _select(directory: Directory, endpoint: Endpoint) -> list[Check]:
    """Whether the account may read what the pipeline has captured: the catalog hides tables from one that may not."""
    state = Ledger(directory.ledger).state
    if state is None:
        return []
    with closing(open_connection(endpoint)) as connection:
        return [check_hidden(connection, streamed_tables(state))]


def _catalog(spec: Spec, directory: Directory, tables: list[Table]) -> list[Check]:
    """Whether the catalog answers, and has no tables of others under the names of ours."""
    if spec.sink.catalog is None:
        return []
    destination = destination_of(spec.sink)
    state = Ledger(directory.ledger).state
    owner = Owner(uuid.uuid4().hex) if state is None else state.owner
    assert isinstance(destination, PublishesFormats), "one that has a catalog does"
    look = partial(destination.check_formats, owner, tables)
    why = "Tables are registered there, after each commit."
    return [_tried(look, "catalog", f"{spec.sink.catalog.place} takes the tables", why)]


def check_continuation(spec: Spec, directory: Directory, endpoint: Endpoint, preflight: Preflight) -> list[Check]:
    """What keeps a run from beginning, as checks that fail, and those that are in order.

    Nothing is checked that a waiting command replaces: a whole resnapshot needs no position. A live runner has its
    tables, so they are not compared with a ledger that it changes meanwhile.
    """
    ledger = Ledger(directory.ledger)
    destination = destination_of(spec.sink, directory.maintenance, directory.known_tables)
    state = ledger.state
    if state is None:
        return [_places(destination, Owner(uuid.uuid4().hex), preflight.tables)]
    commands = Inbox(directory.inbox).commands()
    replaced_tables = to_replace(commands)
    checks = [_settings(spec, state, preflight.tables, commands)]
    if everything(commands) or replaced_tables.issuperset(state.tables):
        return checks
    checks.append(_position(state, endpoint, preflight, spec.first_server_id()))
    runner = find_runner(directory)
    if runner is None or not runner.alive:
        checks += [_published(destination, ledger, state, replaced_tables), _places_begun(destination, state)]
    return checks


def _settings(spec: Spec, state: State, tables: list[Table], commands: list[Command]) -> Check:
    def look() -> None:
        check_tables(spec, state, tables, to_add(commands))
        check_asked(set(with_other_projection(spec, state)) - to_replace(commands))

    return _tried(look, "tables of the spec", "those of the ledger, or new ones that may join", "A run continues them.")


def _position(state: State, endpoint: Endpoint, preflight: Preflight, first_server_id: int) -> Check:
    server = preflight.server

    def look() -> None:
        with closing(open_connection(endpoint)) as connection:
            if server.identity == state.identity:
                check_source(state, connection, endpoint, server, first_server_id)
            else:  # the epoch of a failover is not committed here
                failed_over(state, connection, endpoint, server, first_server_id, "")

    return _tried(look, "position", f"the source has the binlog from {state.position} on", "A run continues there.")


def _published(destination: Destination, ledger: Ledger, state: State, replaced_tables: set[str]) -> Check:
    def look() -> None:
        newest = destination.terms.newest(state.ledger)
        destination.recall(newest)
        looks = read_states(destination, state)
        comparison = compare(destination, state, newest, list(ledger.kept_epochs()), looks)
        comparison.require(replaced_tables, resnapshots_all=False)

    return _tried(look, "published tables", "as the ledger has published them", "A run adds to them.")


def _places_begun(destination: Destination, state: State) -> Check:
    """Of tables without published rows: the first run may have been refused because somebody else uses their places."""
    empty_tables = [
        published_as(table_from_dict(table.table), table.projection)
        for table in state.tables.values()
        if table.begun and not (table.rows_read or table.changes_applied or table.applied)
    ]
    return _places(destination, state.owner, empty_tables)


def _places(destination: Destination, owner: Owner, tables: list[Table]) -> Check:
    def look_at(table: Table) -> None:
        destination_table = destination.table(owner, table)
        if not destination_table.is_there:
            destination_table.check(None, table)

    return _tried(
        partial(map_parallel, look_at, tables),
        "places of tables",
        "free",
        "Rows of two pipelines would be mixed there.",
    )


def _tried(look: Callable[[], object], name: str, expected: str, why: str) -> Check:
    try:
        look()
    except TidemarkError as error:
        return Check(name, "fail", expected, error.message, error.detail or why, error.hint)
    return Check(name, "ok", expected, expected, why)
