"""Redump commands: of everything, tables, chunks, a range, or keys."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import SpecError, unknown_tables
from engine.base.wording import plural
from engine.decode.schema import Table, table_from_dict
from engine.journal.event_lines import event_from
from engine.journal.events import ChunkFinished, Event, RunStarted, TablePlanned
from engine.journal.parts import Part, parts_in
from engine.journal.sentences import named_chunks
from engine.ledger.state import TableState
from engine.ledger.store import Ledger
from engine.pipeline import formats
from engine.pipeline.directory import Directory
from engine.plan.chunks import Plan, Range, plan_from_dict
from engine.plan.keys import Bound
from engine.plan.named import check_keys, check_range
from engine.plan.ordering import ServerOrder
from engine.source.connect import Endpoint

_NOTHING_READ = "Nothing was read again."
_MOST_KEYS = 1_000_000


@dataclass(frozen=True)
class Redump:
    """A requested redump: of all tables if it names none; of one table's `ranges` or `keys` if it has any."""

    identity: str
    path: Path
    """The command's file, in the inbox until the redump is done."""
    tables: tuple[str, ...]
    ranges: tuple[Range, ...] = ()
    keys: tuple[Bound, ...] = ()
    chunks: tuple[int, ...] = ()
    """The numbers of the chunks whose ranges these are; empty if the ranges were given."""
    sink: str = ""
    """The further sink whose rows are deleted, too, which the source has not."""

    @property
    def verb(self) -> str:
        return "redump"

    @property
    def is_whole_table(self) -> bool:
        """Whether it redumps whole tables."""
        return not self.ranges and not self.keys

    def describe(self) -> str:
        """Its tables and parts as text, without values of rows.

        Such as `chunks 3, 7–9 of d.t`, `a range of d.t`, `2 keys of d.t`.
        """
        part = ""
        if self.ranges:
            part = f"{named_chunks(self.chunks).lower()} of " if self.chunks else "a range of "
        elif self.keys:
            part = f"{plural(len(self.keys), 'key')} of "
        return part + (", ".join(self.tables) or "everything")


def check(directory: Directory, arguments: dict[str, Any]) -> None:
    """Raises SpecError for a command that the pipeline would refuse, judged by its current ledger."""
    state = Ledger(directory.ledger).state
    redump_from("", directory.inbox, arguments, state.tables if state else {}, directory.journals)


def check_ranges(endpoint: Endpoint, redump: Redump, table: Table, plan: Plan) -> None:
    """Raises SpecError for a range that the server does not accept for the table's chunk key."""
    key = plan.key(table)
    with closing(ServerOrder(endpoint)) as order:
        for limits in redump.ranges:
            assert key is not None
            check_range(table, key, limits, order)


def arguments_from(file: str) -> dict[str, Any]:
    """A command's arguments from a JSON file (see `redump_from`); `-` is standard input.

    Raises SpecError when it cannot be read or is not a JSON object.
    """
    try:
        arguments = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise _request_error(f"The request {file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise _request_error(f"The request is not JSON: {error}.") from error
    if not isinstance(arguments, dict):
        raise _request_error('The request is not a JSON object, such as {"tables": ["shop.orders"], "keys": ["17"]}.')
    return arguments


def arguments_of(tables: list[str], chunks: str, limits: tuple[str, str] | None, keys: str) -> dict[str, Any]:
    """A command's arguments from the command line.

    keys: `k1,k2`, or a file with one per line; several columns as JSON lists.
    """
    arguments: dict[str, Any] = {"tables": tables}
    if chunks:
        try:
            arguments["chunks"] = [int(number) for number in chunks.split(",")]
        except ValueError as error:
            raise _request_error(f"--chunk {chunks!r} is not a list of numbers separated by commas.") from error
    if limits is not None:
        arguments["range"] = [end or None for end in limits]
    if keys:
        arguments["keys"] = _listed_keys(keys)
    return arguments


def _listed_keys(keys: str) -> list[Any]:
    path = Path(keys)
    if path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines()
        return [_key(line) for line in lines if line.strip()]
    return list(_json(f"[{keys}]")) if keys.startswith("[") else keys.split(",")


def _key(line: str) -> Any:
    return _json(line) if line.startswith("[") else line


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise _request_error(f"{text!r} is not a JSON list.") from error


def redump_from(identity: str, path: Path, arguments: Any, tables: Mapping[str, TableState], journals: Path) -> Redump:
    """Parse a command's arguments: "tables", and for one table "chunks" (numbers), "range" ([lower, upper]) or "keys".

    "sink" names a further sink.

    A bound or key is a text, or a list of texts for several columns; a null bound is an open end. Raises SpecError for
    a command that cannot be executed.
    """
    names = arguments.get("tables") if isinstance(arguments, Mapping) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _request_error("It does not say which tables: a list of full names, empty for all.")
    if unknown := sorted(set(names) - set(tables)):
        raise unknown_tables(unknown, tables, _NOTHING_READ)
    sink = arguments.get("sink", "")
    if not isinstance(sink, str):
        raise _request_error("A sink is named by its name.")
    parts = {name: arguments[name] for name in ("chunks", "range", "keys") if arguments.get(name) is not None}
    if not parts:
        return Redump(identity, path, tuple(names), sink=sink)
    if len(names) != 1 or len(parts) != 1:
        raise _request_error("Give chunks, a range or keys: only one of them, for one table.")
    table_state = tables[names[0]]
    table, plan = table_from_dict(table_state.table), plan_from_dict(table_state.plan)
    if "keys" in parts:
        keys = _keys(parts["keys"])
        check_keys(table, keys)
        return Redump(identity, path, tuple(names), keys=keys, sink=sink)
    if not plan.chunk_key:
        raise _request_error(
            f"{table.full_name} is one chunk, without a chunk key.",
            "Redump the whole table: --table without --chunk, --range or --keys.",
        )
    if "chunks" in parts:
        ranges = chunk_ranges(journals, table, plan, parts["chunks"])
        chunks = tuple(dict.fromkeys(parts["chunks"]))
        return Redump(identity, path, tuple(names), ranges=ranges, chunks=chunks, sink=sink)
    ends = parts["range"]
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise _request_error("A range is a lower and an upper bound.")
    ranges = (Range(*(bound_from(end, plan) for end in ends)),)
    return Redump(identity, path, tuple(names), ranges=ranges, sink=sink)


def bound_from(end: Any, plan: Plan) -> Bound | None:
    """A bound as `plan --json` shows it: a text, or a JSON list of texts for several columns; None is an open end."""
    if end is None:
        return None
    if isinstance(end, str) and len(plan.chunk_key) > 1 and end.startswith("["):
        end = _json(end)
    return tuple(map(str, end)) if isinstance(end, list | tuple) else (str(end),)


def _keys(key_texts: Any) -> tuple[Bound, ...]:
    if not isinstance(key_texts, list) or not key_texts or len(key_texts) > _MOST_KEYS:
        raise _request_error(f"Keys are a list of 1 to {_MOST_KEYS:,}.")
    keys = (tuple(map(str, key)) if isinstance(key, list) else (str(key),) for key in key_texts)
    return tuple(dict.fromkeys(keys))


def chunk_ranges(journals: Path, table: Table, plan: Plan, numbers: Any) -> tuple[Range, ...]:
    """The ranges of chunks in the table's last copy, from the journals. Raises SpecError for unknown chunks."""
    if not isinstance(numbers, list) or not numbers or not all(type(number) is int for number in numbers):
        raise _request_error("Chunks are a list of numbers.")
    wanted, by_number = set(numbers), dict[int, Range]()
    for part in reversed(parts_in(journals)):
        planned = False
        ranges = dict[int, Range]()
        for event in _events(part, table.full_name):
            if isinstance(event, TablePlanned):
                planned, ranges = True, {}
            elif event.chunk in wanted:
                ranges[event.chunk] = Range(bound_from(event.lower, plan), bound_from(event.upper, plan))
        by_number = ranges | by_number
        if planned or wanted <= set(by_number):
            break
    if unknown := sorted(wanted - set(by_number)):
        raise _request_error(
            f"The journals have no chunk {', '.join(map(str, unknown))} of {table.full_name}.",
            "`plan --json` and the console show its chunks, as long as journal.retention keeps their journal; --range "
            "redumps any range. A parked chunk was never read: retry it with `resume --table`.",
        )
    return tuple(by_number[number] for number in dict.fromkeys(numbers))


def _events(part: Part, table: str) -> Iterator[TablePlanned | ChunkFinished]:
    """The plans and finished chunks of a table in one part of a journal, oldest first."""
    marks = ('"run.started"', '"table.planned"', '"chunk.finished"')
    with part.open() as file:
        for line in file:
            match _event_of_line(line.decode("utf-8", "replace"), marks):
                case RunStarted() as event:
                    formats.check("journal", event.to_json(), part.path)
                case TablePlanned() | ChunkFinished() as event if event.table == table:
                    yield event


def _event_of_line(line: str, marks: tuple[str, ...]) -> Event | None:
    """A complete line of one of these kinds; None for others, and for a line torn by a full disk."""
    if not line.endswith("\n") or not any(mark in line for mark in marks):
        return None
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event_from(str(body.get("event")), body) if isinstance(body, dict) else None


def _request_error(message: str, hint: str = "") -> SpecError:
    return SpecError(message, detail=_NOTHING_READ, hint=hint)
