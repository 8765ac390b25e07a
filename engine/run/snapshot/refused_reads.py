"""Tables whose rows the account may not read: their chunks wait for the grant, and everything else continues.

Tables whose columns it may not see wait in the same way (`run.lifecycle.refused_tables`).

Whoever took the privilege can give it back, so such a read counts against no chunk. A run without an end waits as long
as the privilege is missing. A run with an end waits `source_loss.outage.REFUSED_S`. The first refusal is an event with
the statement that grants the privilege, and raises the alert `privileges_missing` of the table.
"""

import math

from engine.base import clock
from engine.base.errors import PrivilegesMissingError
from engine.decode.schema import Table
from engine.journal import Journal
from engine.journal.connection_events import ReadsRefused
from engine.run.source_loss.outage import REFUSED_S
from engine.source.connect import Connection, quote
from engine.source.own_account import own_account


class RefusedReads:
    """The tables of one session with a refused read. Used by one thread.

    account: as a statement has it, `'user'@'host'`. patience_s: how long a table waits for its privilege.
    """

    def __init__(self, journal: Journal, account: str, patience_s: float = math.inf) -> None:
        self._journal = journal
        self._account = account
        self._patience_s = patience_s
        self._since_s: dict[str, float] = {}

    def note(self, table: Table, error: PrivilegesMissingError) -> PrivilegesMissingError:
        """Journal the first refused read of a table. Returns the error with the statement that grants the privilege."""
        name = table.full_name
        refusal = PrivilegesMissingError(
            f"The account may not read {name}: {error.message}",
            detail="Published data is unaffected. Other tables and the binlog are read as ever.",
            hint=f"Grant it: the read continues by itself within 30 seconds. "
            f"GRANT SELECT ON {quote(table.database, table.name)} TO {self._account};",
        )
        if name not in self._since_s:
            self._since_s[name] = clock.monotonic_s()
            event = ReadsRefused(table=name, since=clock.utc_text(), message=refusal.message, hint=refusal.hint)
            self._journal.write(event)
        return refusal

    def is_temporary(self, table: str) -> bool:
        """Whether a table waits for its privilege, or would from now on."""
        now_s = clock.monotonic_s()
        return now_s - self._since_s.get(table, now_s) < self._patience_s

    def end(self, table: str) -> None:
        """Record that the table is read, or is not to be read any more."""
        if self._since_s.pop(table, None) is not None:
            self._journal.write(ReadsRefused(table=table, since=None))


def refused_reads_of(journal: Journal, connection: Connection, *, bounded: bool) -> RefusedReads:
    """Those of a session. bounded: whether the run has an end. Raises TransientError."""
    return RefusedReads(journal, own_account(connection), REFUSED_S if bounded else math.inf)
