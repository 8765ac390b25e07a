"""What a commit to a REST catalog sends, so that the table there becomes the one in the folder.

Source: Apache Iceberg, "REST Catalog Open API", CommitTableRequest.
"""

import json
from collections.abc import Iterator
from typing import Any

from engine.destination.iceberg.metadata import TableMetadata

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
    """Whether another runner has told the catalog of later commits."""
    newest, stored_newest = metadata.newest, stored.newest
    if stored.uuid != metadata.uuid or newest is None or stored_newest is None or stored_newest.version is None:
        return False
    return stored_newest.sequence > newest.sequence and any(one.id == newest.id for one in stored.snapshots)


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
        (stored.uuid, stored.format, stored.location) == (metadata.uuid, metadata.format, metadata.location)
        and (stored.newest is None or stored.newest.version is not None)
        and bool(own_ids & stored_ids or not stored_ids)
        and all(one.sequence > stored.last_sequence for one in metadata.snapshots if one.id not in stored_ids)
        and all(schemas[one.id].columns == one.columns for one in metadata.schemas if one.id in schemas)
        and new_schemas == [*range(following, following + len(new_schemas))]
    )


def updates_of(stored: TableMetadata, metadata: TableMetadata) -> Iterator[dict[str, Any]]:
    """The updates of the commit, in order."""
    known_schemas = {one.id for one in stored.schemas}
    for schema in sorted(metadata.schemas, key=lambda one: one.id):
        if schema.id not in known_schemas:
            yield {"action": "add-schema", "schema": schema.to_json(), "last-column-id": metadata.last_column_id}
    if metadata.schemas[-1].id != stored.schemas[-1].id:
        yield {"action": "set-current-schema", "schema-id": metadata.schemas[-1].id}
    stored_ids, own_ids = {one.id for one in stored.snapshots}, {one.id for one in metadata.snapshots}
    for snapshot in metadata.snapshots:
        if snapshot.id not in stored_ids:
            yield {"action": "add-snapshot", "snapshot": json.loads(snapshot.text)}
            yield {
                "action": "set-snapshot-ref",
                "ref-name": _BRANCH,
                "type": "branch",
                "snapshot-id": snapshot.id,
            }
    if expired := sorted(stored_ids - own_ids):
        yield {"action": "remove-snapshots", "snapshot-ids": expired}
    before = stored.written_properties
    if changed := {key: value for key, value in metadata.written_properties.items() if before.get(key) != value}:
        yield {"action": "set-properties", "updates": changed}
