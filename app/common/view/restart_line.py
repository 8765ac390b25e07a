"""What the watchdog will do about a runner that is gone, in one line."""

from datetime import datetime

from app.common.view import words
from engine.watch.watch_status import WatchStatus


def restart_line(watch: WatchStatus | None, now: datetime) -> str:
    """Empty if the watchdog does nothing about it. watch: `engine.watch.watch_status.as_status`."""
    if not watch:
        return ""
    times = words.plural(watch.restarts_within_hour, "restart")
    if watch.down:
        return f"The watchdog does not restart it: {watch.down}."
    left_s = max((datetime.fromisoformat(watch.due or "") - now).total_seconds(), 0.0)
    return f"The watchdog restarts it in {words.duration(round(left_s))} ({times} in the last hour)."
