"""What the destination has, for people.

reading                the rows of a table, now or at an earlier time (`tidemark read`)
queries                SQL over mirrors and change logs, a key's history, the source at an earlier time; `one_select`,
                       `read_only_files`: it can only read; `query_advice`: what to do about an error
copy_notices           that a table is not copied yet, and how far it is
destination_sizes      files and sizes of tables: `TableMaintenance.sizes` of the destination counts them
declared_types         the types that columns get in databases
table_facts            what ledger and destination say of tables
server_trial           whether the servers of a destination can be used, for a new pipeline
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.explore.reading import read

__all__ = ["read"]


def __getattr__(name: str) -> Any:
    """`read`, imported when it is asked for: `status` uses this room, and must not load Arrow and DuckDB for it."""
    if name != "read":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine.explore.reading import read

    return read
