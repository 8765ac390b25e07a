"""The other formats of the Delta tables of one captured table."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from engine.destination.capabilities import PublishedFormat
from engine.destination.delta.formats.format_publisher import FormatPublisher
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.iceberg.manifest_files import Format
from engine.store.folder import Folder


class TableFormats:
    """publisher: the destination's. table: the captured table's full name. ledger: its identifier. iceberg: version."""

    def __init__(self, publisher: FormatPublisher, table: str, ledger: str, iceberg: Format) -> None:
        self.iceberg = iceberg
        self._publisher = publisher
        self._table = table
        self._ledger = ledger
        self._copies: dict[Folder, IcebergCopy] = {}

    def follow(self, folder: Folder, sort_columns: Sequence[str] = ()) -> Callable[[], None]:
        """Publish the Delta table in a folder. Returns what is to be called after each commit to it."""
        copy = IcebergCopy(folder, self._ledger, self.iceberg, sort_columns)
        self._copies[folder] = self._publisher.copy_of(self._table, copy)
        return partial(self._publisher.note, self._copies[folder])

    def note_all(self) -> None:
        """Publish soon what they lack."""
        for copy in self._copies.values():
            self._publisher.note(copy)

    @property
    def are_published(self) -> bool:
        """Whether they lack nothing."""
        return all(self._publisher.is_published(copy) for copy in self._copies.values())

    def expire(self, folder: Folder, retention: timedelta, oldest_version: int) -> None:
        """Expire what a VACUUM may take files from (`IcebergCopy.expire`)."""
        self._copies[folder].expire(retention, oldest_version)

    def catch_up(self) -> None:
        """Publish now what they lack (`IcebergCopy.catch_up`)."""
        for copy in self._copies.values():
            copy.catch_up()

    def published(self, folder: Folder) -> PublishedFormat:
        """What readers of Iceberg see of the Delta table in a folder, read again."""
        copy = self._copies[folder]
        version, missing_versions, pointer = copy.read_published()
        return PublishedFormat(
            f"Iceberg v{self.iceberg}", folder.url, copy.folder.url, pointer, version, missing_versions
        )

    def drop(self) -> None:
        """Delete the metadata of all of them."""
        for copy in self._copies.values():
            copy.drop()
            self._publisher.forget(copy)
