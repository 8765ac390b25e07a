"""What a commit to a REST catalog sends, so that the table there becomes the one in the folder.

Source: Apache Iceberg, "REST Catalog Open API", CommitTableRequest.
"""

import json
from collections.abc import Iterator
from typing import Any

from engine.destination.iceberg.catalogs.catalog_protocol import plain_location
from engine.destination.iceberg.metadata import NUMBER, IcebergSnapshot, TableMetadata
from engine.destination.iceberg.schemas import IcebergSchema

_BRANCH = "main"


def requirements_of(stored: TableMetadata) -> list[dict[str, Any]]:
    """What must still be so for a commit. stored: the table in the catalog, as of the last look."""
    newest = stored.newest
    return [
        {"type": "assert-table-uuid", "uuid": stored.uuid},
        {"type": "assert-ref-snapshot-id", "ref": _BRANCH, "snapshot-id": None if newest is None else newest.id},
        {"type": "assert-current-schema-id", "current-schema-id": stored.schemas[-1].id},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": stored.last_column_id},
    ]


def is_later(stored: TableMetadata, metadata: TableMetadata) -> bool:
    """Whether the catalog has a later commit of another runner to the same table."""
    numbers = [one.properties.get(NUMBER, "") for one in (stored, metadata)]
    if stored.uuid != metadata.uuid or not all(map(str.isdecimal, numbers)):
        return False
    return int(numbers[0]) > int(numbers[1])


def was_rolled_back(stored: TableMetadata) -> bool:
    """Whether another program has made an earlier snapshot of ours the newest one."""
    newest = stored.newest
    return newest is not None and newest.version is not None and newest.sequence < stored.last_sequence


def follows(stored: TableMetadata, metadata: TableMetadata) -> bool:
    """Whether a commit can make the one of the other; if not, the table is registered again.

    A catalog numbers new schemas itself, so they must be the next ones.
    """
    own_ids = {one.id for one in metadata.snapshots}
    stored_ids = {one.id for one in stored.snapshots}
    schemas = {one.id: one for one in stored.schemas}
    new_schemas = sorted(one.id for one in metadata.schemas if one.id not in schemas)
    following = max(schemas) + 1
    return (
        (stored.uuid, stored.format) == (metadata.uuid, metadata.format)
        and plain_location(stored.location) == plain_location(metadata.location)
        and all(one.version is not None for one in _newer(stored, metadata))
        and bool(own_ids & stored_ids or not stored_ids)
        and all(one.sequence > stored.last_sequence for one in metadata.snapshots if one.id not in stored_ids)
        and all(_same(schemas[one.id], one) for one in metadata.schemas if one.id in schemas)
        and new_schemas == [*range(following, following + len(new_schemas))]
    )


def _newer(stored: TableMetadata, metadata: TableMetadata) -> list[IcebergSnapshot]:
    """The snapshots of the catalog that the folder has not, and that are not expired there."""
    own = {one.id for one in metadata.snapshots}
    oldest = metadata.snapshots[0].sequence if metadata.snapshots else 0
    return [one for one in stored.snapshots if one.id not in own and one.sequence >= oldest]


def _same(stored: IcebergSchema, own: IcebergSchema) -> bool:
    """Whether two schemas have the same columns. Other programs write `decimal(10,2)` for `decimal(10, 2)`."""

    def columns(schema: IcebergSchema) -> list[tuple[int, str, str]]:
        return [(one.id, one.name, one.type.replace(" ", "")) for one in schema.columns]

    return columns(stored) == columns(own)


def updates_of(stored: TableMetadata, metadata: TableMetadata) -> Iterator[dict[str, Any]]:
    """The updates of the commit, in order."""
    known_schemas = {one.id for one in stored.schemas}
    for schema in sorted(metadata.schemas, key=lambda one: one.id):
        if schema.id not in known_schemas:
            yield {"action": "add-schema", "schema": schema.to_json(), "last-column-id": metadata.last_column_id}
    if metadata.schemas[-1].id != stored.schemas[-1].id:
        yield {"action": "set-current-schema", "schema-id": metadata.schemas[-1].id}
    stored_ids, own_ids = {one.id for one in stored.snapshots}, {one.id for one in metadata.snapshots}
    new_snapshots = [one for one in metadata.snapshots if one.id not in stored_ids]
    for snapshot in new_snapshots:
        yield {"action": "add-snapshot", "snapshot": json.loads(snapshot.text)}
        yield _set_newest(snapshot.id)
    newest = metadata.newest
    if newest is not None and not new_snapshots and (stored.newest is None or stored.newest.id != newest.id):
        yield _set_newest(newest.id)
    if expired := sorted(stored_ids - own_ids):
        yield {"action": "remove-snapshots", "snapshot-ids": expired}
    before = stored.written_properties
    if changed := {key: value for key, value in metadata.written_properties.items() if before.get(key) != value}:
        yield {"action": "set-properties", "updates": changed}


def _set_newest(snapshot: int) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": _BRANCH, "type": "branch", "snapshot-id": snapshot}
