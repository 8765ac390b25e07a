"""What the journal says about epochs and lag."""

from datetime import UTC, datetime
from typing import Any

from tests.live.support.pipeline import Pipeline

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def redumped(pipeline: Pipeline, table: str = "", since: datetime = LONG_AGO) -> int:
    """The number of redumped entries, of one table or of all, in the epochs since a time."""
    epochs = [e for e in pipeline.events("epoch.committed") if datetime.fromisoformat(e["ts"]) > since]
    return sum(sum(kinds) for e in epochs for name, kinds in e["redumped"].items() if table in ("", name))


def rests(lag: dict[str, Any]) -> bool:
    """Whether nothing was outstanding, and the mirrors had everything, when this was measured."""
    return lag["lag_bytes"] == 0 and not lag["mirror_age_s"]
