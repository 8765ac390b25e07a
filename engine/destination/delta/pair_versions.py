"""The versions of one captured table's two Delta tables: what a backup records, and what a restore rolls back to."""

from collections.abc import Mapping
from functools import partial

from engine.destination.capabilities import Versions
from engine.destination.delta.lake_table import COPY, GENERATION, LakeTable
from engine.destination.delta.log.delta_actions import Actions
from engine.destination.delta.log.kept_versions import OldVersion
from engine.destination.delta.log.missing_files import check_vectors
from engine.destination.delta.log.rollback import check_identity, check_is_same, check_is_there, rolled_back
from engine.destination.delta.table_pair import TablePair
from engine.destination.destination_protocol import KINDS, MERGED_SEQ


class PairVersions:
    """Reads the newest versions of a pair, and rolls it back to earlier ones."""

    def __init__(self, pair: TablePair) -> None:
        self._pair = pair

    @property
    def is_there(self) -> bool:
        """Whether one of the Delta tables exists and belongs to the ledger."""
        return self._pair.any_is_there

    def newest(self) -> dict[str, tuple[int, dict[str, int]]]:
        """The newest version of each table, with all identifiers that a rollback brings back."""
        return {lake.folder.name: _newest(lake) for lake in self._pair.lakes}

    def identities(self) -> dict[str, str]:
        """By folder name, the identifier that each Delta table got when it was created."""
        return {lake.folder.name: str(lake.load().metadata().id) for lake in self._pair.lakes}

    def check_roll_back(self, versions: Versions, identities: Mapping[str, str]) -> None:
        """Raises DestinationError when `roll_back` is not possible; changes nothing.

        identities: those of the tables that the versions are of; empty if they are not known.
        """
        name = self._pair.table.full_name
        for lake in self._pair.lakes:
            check_is_there(lake.folder, name)
            check_identity(lake.folder, name, str(lake.load().metadata().id), identities.get(lake.folder.name, ""))
            version, transactions = versions[lake.folder.name]
            # Backups of earlier versions lack those of the time when the table had no key, or another one.
            looked_at = {*transactions, *map(lake.app, lake.kinds)}
            then = {app: transactions.get(app, -1) for app in rollback_apps(lake) if app in looked_at}
            old = self._old_version(lake, version)
            check_is_same(lake.folder, name, version, old, then, identities.get(lake.folder.name, ""))
            if rollback := self._rolled_back(lake, version, transactions):
                check_vectors(lake.folder, rollback.add)

    def roll_back(self, versions: Versions) -> None:
        """Roll both back to these versions, transaction identifiers included; then commit the term.

        A mirror of a table that had no key then is deleted: with its later numbers, changes would be taken for applied.

        Raises DestinationError when a version or one of its files is missing; that table is then unchanged.
        """
        self._pair.repair()
        for lake in self._pair.lakes:
            lake.commit(partial(self._rolled_back, lake, *versions[lake.folder.name]))
        mirror = self._pair.mirror.lake
        if not self._pair.table.key and mirror.exists and mirror.is_ours:
            if self._pair.formats is not None:
                self._pair.formats.drop()  # what stays is published again with the next commit
            mirror.drop()
        self._pair.commit_term()

    def _old_version(self, lake: LakeTable, version: int) -> OldVersion:
        return self._pair.kept_versions.old_version(lake.folder, version, rollback_apps(lake))

    def _rolled_back(self, lake: LakeTable, version: int, transactions: Mapping[str, int]) -> Actions | None:
        delta = lake.load()
        if lake.log.version == version:
            return None
        apps = [app for app in rollback_apps(lake) if app in transactions or app in lake.log.transactions]
        then = {app: transactions.get(app, -1) for app in apps}
        return rolled_back(delta, lake.log.files(delta), self._old_version(lake, version), then)


def _newest(lake: LakeTable) -> tuple[int, dict[str, int]]:
    """Also with identifiers that commits to it have no more: a table without a key has its chunks in the change log."""
    lake.refresh()
    delta = lake.load()
    numbers = {app: delta.transaction_version(app) for app in rollback_apps(lake)}
    earlier = {app: int(number) for app, number in numbers.items() if number is not None}
    return lake.log.version, {**earlier, **lake.log.transactions}


def rollback_apps(lake: LakeTable) -> list[str]:
    """The application identifiers that a rollback brings back."""
    return [lake.app(kind) for kind in (*KINDS, MERGED_SEQ, GENERATION, COPY)]
