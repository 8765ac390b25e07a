"""Whether a process reaches the destination's bucket: tried by Spark's workers, which have credentials of their own."""

from uuid import uuid4

from engine.store.folder import Folder


def reach(store: Folder) -> None:
    """Write a file and delete it. Raises StoreAwayError, StoreAccessError, or another OSError."""
    name = f".tidemark-reader-{uuid4().hex}"
    store.write(name, name.encode())
    store.delete([name])
