"""Which epochs the ledger keeps: those that some destination has not applied, as far as the ledger knows."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from engine.capture.landing import Landing, StagesFiles
from engine.decode.schema import table_from_dict
from engine.destination.table_progress import files_of_parts
from engine.ledger.records import TableChange
from engine.ledger.store import Ledger

Needs = Callable[[], Mapping[str, set[int]]]
"""Returns the epochs that a destination needs, by table, whatever it has applied since."""


class EpochRetention:
    """Prunes the ledger. Any thread may use it."""

    def __init__(self, ledger: Ledger, landing: Landing) -> None:
        self.recorded_epoch = -1
        """The epoch up to which the ledger knows that every destination has everything."""
        self._ledger = ledger
        self._landing = landing
        self._needs: list[Needs] = []
        self._prune_lock = threading.Lock()

    def keep(self, needs: Needs) -> None:
        """Keep what a destination needs."""
        self._needs.append(needs)

    def prune(self) -> None:
        """Let the ledger forget the epochs that nobody needs, and delete what readers staged for them."""
        if not self._prune_lock.acquire(blocking=False):
            return
        try:
            through = self.recorded_epoch  # first: what is needed may grow until it is recorded, and shrink afterwards
            needed_parts = defaultdict[int, set[str]](set)
            for needs in self._needs:
                for name, epochs in needs().items():
                    for epoch in epochs:
                        needed_parts[epoch].add(name)
            collect = partial(self._collect, self._landing) if isinstance(self._landing, StagesFiles) else None
            with suppress(OSError):  # such as a full disk: nothing is lost, and the next merge tries again
                self._ledger.prune(through, needed_parts, collect)
        finally:
            self._prune_lock.release()

    def _collect(self, landing: StagesFiles, parts: Mapping[str, TableChange]) -> None:
        assert self._ledger.state is not None
        for name, part in parts.items():
            table_state = self._ledger.state.known(name)
            if table_state is not None and (files := [file for one in files_of_parts([(0, part)]) for _, file in one]):
                landing.collect(table_from_dict(table_state.table), files)
