"""Commits an Iceberg table to a catalog, apart from what publishes the table in its folder.

A catalog that is away, slow or refuses a table delays its own readers alone: no commit, merge or vacuum waits for it.
It keeps no essential state: what the catalog lacks, the table's folder has.
"""

import threading

from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.iceberg.catalogs.catalog_protocol import CatalogTable


class Registration:
    """An Iceberg table in a catalog."""

    def __init__(self, copy: IcebergCopy, registered: CatalogTable, catalog: str) -> None:
        """catalog: what it is, in a sentence."""
        self.place = f"{registered.name} in {catalog}"
        self.registered = registered
        self.published_version = -1
        """The version of the Delta table in the last commit to the catalog; -1 for none."""
        self.is_dropped = False
        self._copy = copy
        self._lock = threading.Lock()
        self._foreign_commits: list[str] = []

    def take_foreign_commits(self) -> list[str]:
        """What other programs have done to the table through the catalog, as far as it was met since the last call."""
        commits, self._foreign_commits = self._foreign_commits, []
        return commits

    def catch_up(self, at_least: int = -1) -> int:
        """Commit what the catalog lacks, or drop the table there. Raises DestinationError or SpecError.

        at_least: unused, since each commit to the folder is followed by a call.
        """
        with self._lock:
            if self.is_dropped:
                self.registered.drop()
                return 0
            published = self._copy.published()
            if published is None:
                return 0
            foreign = self.registered.follow(published)
            if foreign:
                self._foreign_commits.append(foreign)
            newest = published.metadata.newest
            self.published_version = -1 if newest is None or newest.version is None else newest.version
            return 1

    def rest(self) -> None:
        """Drop from memory what the next call can read again."""
        with self._lock:
            self.registered.forget()
