"""What `check` looks at beyond the source: places, inbox, routes, and whether a run could begin where the pipeline is.

A run that continues needs the position that the ledger has, and the tables that the ledger has published. A first one
needs places that nobody else uses. The run itself looks again (`run_start`, `takeover`).
"""

import uuid
from collections.abc import Callable
from contextlib import closing

from engine.base.errors import TidemarkError
from engine.base.parallel import map_parallel
from engine.decode.schema import Table
from engine.destination.agreement import compare, read_states
from engine.destination.destination_protocol import Destination
from engine.destination.registry import destination_of
from engine.ledger.state import Owner, State
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import find_runner
from engine.run.commands.inbox import Inbox
from engine.run.lifecycle.destination_check import check_destination, check_state
from engine.run.lifecycle.inbox_check import check_inbox
from engine.run.lifecycle.route_check import check_routes
from engine.run.tables.first_epoch import check_source
from engine.run.tables.table_commands import everything, to_replace
from engine.source.connect import Endpoint, open_connection
from engine.source.preflight import Check, Preflight
from engine.spec.settings import Spec


def check_all(spec: Spec, directory: Directory, endpoint: Endpoint, preflight: Preflight) -> list[Check]:
    """All of it. What a destination that cannot be written has is not looked at."""
    destination = check_destination(spec.sink)
    states = [check_state(spec.state)] if spec.state is not None else []
    checks = [destination, *map(check_destination, spec.sinks), *states]
    checks += [check_inbox(directory.inbox), *check_routes(spec.alerts)]
    if destination.outcome == "ok":
        checks += check_continuation(spec, directory, endpoint, preflight)
    return checks


def check_continuation(spec: Spec, directory: Directory, endpoint: Endpoint, preflight: Preflight) -> list[Check]:
    """What keeps a run from beginning, as checks that fail, and those that are in order.

    Nothing is checked that a waiting command replaces: a whole resnapshot needs no position. A live runner has its
    tables, so they are not compared with a ledger that it changes meanwhile.
    """
    ledger = Ledger(directory.ledger)
    destination = destination_of(spec.sink, directory.maintenance, directory.known_tables)
    if ledger.state is None:
        return [_places(destination, preflight.tables)]
    if everything(Inbox(directory.inbox).commands()):
        return []
    checks = [_position(ledger.state, endpoint, preflight, spec.first_server_id())]
    runner = find_runner(directory)
    if runner is None or not runner.alive:
        checks.append(_published(destination, ledger, directory))
    return checks


def _position(state: State, endpoint: Endpoint, preflight: Preflight, first_server_id: int) -> Check:
    def look() -> None:
        with closing(open_connection(endpoint)) as connection:
            check_source(state, connection, endpoint, preflight.server, first_server_id)

    return _tried(look, "position", f"the source has the binlog from {state.position} on", "A run continues there.")


def _published(destination: Destination, ledger: Ledger, directory: Directory) -> Check:
    def look() -> None:
        state = ledger.state
        assert state is not None
        newest = destination.terms.newest(state.ledger)
        destination.recall(newest)
        looks = read_states(destination, state)
        comparison = compare(destination, state, newest, list(ledger.kept_epochs()), looks)
        comparison.require(to_replace(Inbox(directory.inbox).commands()), resnapshots_all=False)

    return _tried(look, "published tables", "as the ledger has published them", "A run adds to them.")


def _places(destination: Destination, tables: list[Table]) -> Check:
    def look() -> None:
        owner = Owner(uuid.uuid4().hex)
        map_parallel(lambda table: destination.table(owner, table).check(None, table), tables)

    return _tried(look, "places of tables", "free", "Rows of two pipelines would be mixed there.")


def _tried(look: Callable[[], None], name: str, expected: str, why: str) -> Check:
    try:
        look()
    except TidemarkError as error:
        return Check(name, "fail", expected, error.message, f"{why} {error.detail}", error.hint)
    return Check(name, "ok", expected, expected, why)
