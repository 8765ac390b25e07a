"""What troubles a runner that is alive."""

from datetime import datetime

from app.common.view import words
from app.common.view.write_words import WRITE_WORDS
from engine.pipeline.helpers import SPARK
from engine.pipeline.runner_record import RunnerRecord


def troubles(record: RunnerRecord) -> list[tuple[str, str, str, bool]]:
    """What troubles a live runner, such as a full disk or a failing helper thread.

    (what, meaning, what to do, whether nobody must act).
    """
    rows = []
    if outage := record.write_outage:
        limit = "" if outage.cause == "disk" else f" Attempt {outage.attempt}, no time limit."
        meaning = f"The pipeline waits. Nothing is lost; the tables grow older.{limit}"
        fault = WRITE_WORDS[outage.fault]
        rows.append(
            (outage.reason, meaning, f"{outage.hint or fault.remedy} {fault.then}", outage.cause == "store_away")
        )
    for helper in record.helpers:
        since = words.date_time(datetime.fromisoformat(helper.since) if helper.since else None)
        meaning = f"The pipeline continues. {words.plural(helper.errors or 1, 'error')} since {since}."
        if helper.helper == SPARK:
            meaning = "Nothing is read until it answers. Committed data is complete."
        rows.append(
            (
                helper.message,
                meaning,
                helper.hint or "Nothing: it retries on its own, and the events show when it has recovered.",
                False,
            )
        )
    return rows
