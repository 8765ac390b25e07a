"""Creates a Delta table, with its first commit."""

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from engine.capture.files import DataFile
from engine.destination.delta.log.delta_actions import VECTORS_ENABLED, Actions, lines_of, protocol_of
from engine.destination.delta.log.delta_log import DeltaLog
from engine.destination.delta.log.log_files import commit_name, log_of
from engine.destination.delta.log.vector_log import FEATURE
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder


def create(
    folder: Folder,
    schema: pa.Schema,
    description: str,
    properties: Mapping[str, str],
    *,
    vectors: bool = False,
    files: Sequence[DataFile] = (),
) -> None:
    """Create a table in a folder without one.

    It exists whole or not at all. vectors: it may get deletion vectors. files: what it has at once.

    Raises StaleVersionError when another writer created one there.
    """
    nullable = pa.schema([column.with_nullable(True) for column in schema])
    with TemporaryDirectory(prefix="tidemark-table-") as elsewhere:
        DeltaTable.create(elsewhere, nullable, mode="error", description=description, configuration=dict(properties))
        created = log_of(LocalFolder(Path(elsewhere))).read(commit_name(0))
        actions = [json.loads(line) for line in created.splitlines()]
        if (
            vectors
        ):  # by hand: for the property, deltalake would add the feature variantType, which not every reader has
            for action in actions:
                if "metaData" in action:
                    action["metaData"]["configuration"][VECTORS_ENABLED] = "true"
                if "protocol" in action:
                    action["protocol"] = protocol_of(DeltaTable(elsewhere), [FEATURE])
    own = [action for action in lines_of(Actions("CREATE TABLE", {}, add=files)) if "commitInfo" not in action]
    lines = [_unique(action) for action in [*actions, *own]]
    DeltaLog(folder).place(0, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())


def _unique(action: dict[str, Any]) -> dict[str, Any]:
    """Deltalake's description of a commit, with an identifier by which a writer recognises its own."""
    if "commitInfo" in action:
        action["commitInfo"]["txnId"] = str(uuid.uuid4())
    return action
