"""Reads the Delta tables of a captured table back."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from engine.capture.landing import Commit
from engine.destination.delta.log.foreign_commits import commits_after
from engine.destination.delta.read.change_log import ChangeLog
from engine.destination.delta.read.mirror import UNREADABLE, Mirror, defect_of, missing_of
from engine.store.folder import Folder


@dataclass(frozen=True)
class DeltaReader:
    """Reads the mirror and the change log in two folders."""

    mirror_folder: Folder
    changes_folder: Folder

    @property
    def place(self) -> str:
        """The mirror's folder."""
        return self.mirror_folder.url

    @property
    def rewritten_json(self) -> tuple[str, ...]:
        """None: files have the texts of the source."""
        return ()

    @property
    def unreadable(self) -> tuple[type[Exception], ...]:
        """Errors of the file system, of the Delta log and of Parquet files."""
        return UNREADABLE

    def mirror(self, as_of: datetime | None = None) -> Mirror | None:
        """A version of the mirror."""
        return Mirror.if_there(self.mirror_folder, as_of)

    def log(self, as_of: datetime | None = None) -> Mirror | None:
        """A version of the change log."""
        return Mirror.if_there(self.changes_folder, as_of)

    def ordered_changes(self) -> ChangeLog:
        """The newest version of the change log."""
        return ChangeLog(self.changes_folder)

    def defect(self) -> str:
        """By the log and the sizes of files, without reading them."""
        return defect_of(self.mirror_folder)

    def log_defect(self) -> str:
        """By the log, and a listing of the folder."""
        return missing_of(self.changes_folder)

    def commits_after(self, version: int) -> Iterator[Commit]:
        """By the Delta log (`destination.delta.log.foreign_commits`)."""
        return commits_after(self.mirror_folder, version)
