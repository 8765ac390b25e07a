"""The answer to a command that has begun resnapshots, which take as long as a copy."""

from collections.abc import Iterable
from typing import Any


def resnapshots_begun(tables: Iterable[str]) -> dict[str, Any]:
    """The result of a command that has begun the resnapshot of these tables; empty without any."""
    names = sorted(tables)
    return {"begun": names} if names else {}
