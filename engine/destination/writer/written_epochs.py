"""Which epochs of a table were written: `_progress/<database>/<table>.json` in the destination's folder.

It is stored when the writer has returned. So after a kill in between, an epoch is written once more.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Self

from engine.base.errors import DestinationError
from engine.decode.schema import Table
from engine.destination.destination_protocol import CHUNKS
from engine.destination.place_names import place_name
from engine.store.folder import Folder

FOLDER = "_progress"
FORMAT = 1


@dataclass(frozen=True)
class WrittenEpochs:
    """The last epochs of one count (`ledger.state.Owner`)."""

    chunks: int = -1
    changes: int = -1
    begun: int = -1
    """The epoch with which the newest copy began; -1 for the first one."""

    def epoch(self, kind: str) -> int:
        """The last one of a kind."""
        return self.chunks if kind == CHUNKS else self.changes

    def with_epoch(self, kind: str, epoch: int) -> Self:
        """With the epoch of a kind."""
        return replace(self, chunks=epoch) if kind == CHUNKS else replace(self, changes=epoch)


@dataclass(frozen=True)
class WriterProgress:
    """What a writer got of one table."""

    ledger: str
    term: int = 0
    """Of the runner that has written last."""
    copies: int = 0
    """Counts the copies, also those before the table was dropped, and those of other counts of epochs."""
    is_dropped: bool = False
    """Whether the table has left: what is known of it is how many copies there were."""
    largest_seq: int = 0
    epochs: dict[str, WrittenEpochs] = field(default_factory=dict)
    """By the count of epochs."""

    def of(self, count: str) -> WrittenEpochs:
        """The epochs of a count."""
        return self.epochs.get(count, WrittenEpochs())

    def with_epochs(self, count: str, epochs: WrittenEpochs) -> Self:
        """With the epochs of a count."""
        return replace(self, epochs={**self.epochs, count: epochs})


class ProgressFile:
    """The file of one table."""

    def __init__(self, root: Folder, table: Table) -> None:
        folder = root / FOLDER
        database, name = place_name(folder, table.database), place_name(folder, table.name)
        self._folder = folder / database
        self._name = f"{name}.json"

    def read(self) -> WriterProgress | None:
        """What it says; None if it is not there. Raises DestinationError if it is not valid."""
        try:
            raw = json.loads(self._folder.read(self._name))
            raw.pop("format")
            epochs = {count: WrittenEpochs(**one) for count, one in raw.pop("epochs").items()}
            return WriterProgress(**raw, epochs=epochs)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DestinationError(
                f"{self._folder.url}/{self._name} does not say which epochs were written: {error!r}.",
                detail="Nothing was written.",
                hint="Restore it from a copy, or delete it and resnapshot the table.",
            ) from error

    def write(self, progress: WriterProgress) -> None:
        """Replace it, durably."""
        self._folder.write(self._name, json.dumps({"format": FORMAT, **asdict(progress)}).encode())
