"""The commands that the publisher carries out.

Among them is `tidemark merge`: merge waiting changes now, whatever that costs.
"""

from collections.abc import Callable, Collection
from functools import partial

from engine.destination.publisher import Publisher
from engine.ledger.store import Ledger
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.commands.maintain import Maintainer, accepted
from engine.run.redump.executor import RedumpExecutor

VERB = "merge"


def merge_soon(publisher: Publisher, ledger: Ledger, tables: Collection[str]) -> Callable[[], bool]:
    """Merge tables at once, with all that is committed. Returns whether they are merged."""
    assert ledger.state is not None
    epoch = ledger.state.epoch
    publisher.merge_soon(tables, epoch)
    return partial(publisher.can_be_read, tables, epoch)


class Requests:
    """The commands that the publisher carries out: maintenance, merges, and redumps once their rows are committed."""

    def __init__(
        self, publisher: Publisher, commands: AcceptedCommands, ledger: Ledger, redumps: RedumpExecutor
    ) -> None:
        self._publisher = publisher
        self._commands = commands
        self._ledger = ledger
        self._redumps = redumps
        self._maintainer = Maintainer(publisher, commands)
        self._asked: dict[str, Callable[[], bool]] = {}

    def answer(self) -> None:
        """Hand over new requests, and answer completed ones."""
        self._maintainer.step()
        self._merges()
        self._redumps.answer()

    def finish_redumps(self) -> None:
        """Answer the redumps whose rows are committed, once the mirrors have them: nothing else is read any more."""
        if self._redumps.merging:
            self._publisher.drain()
            self._redumps.answer()

    def _merges(self) -> None:
        """Answer merges once the mirrors have what was committed when they were taken."""
        assert self._ledger.state is not None
        for command in accepted(self._commands, VERB):
            if command.identity not in self._asked:
                tables = command.tables or tuple(self._ledger.state.tables)
                self._asked[command.identity] = merge_soon(self._publisher, self._ledger, tables)
            if self._asked[command.identity]():
                del self._asked[command.identity]
                self._commands.carried_out(command, {})
