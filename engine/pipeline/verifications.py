"""The verification of each table: whether its mirror equals its source, and since when that is known.

    <directory>/verify/summary.json         a line per table: `Summary`
                       tables/<table>.json  its compared parts, and the rows that differ: `Details`
                       audit.json           the runner's last audit of the change logs: `LastAudit`
                       mirrors.json         what other programs have changed in the mirrors: `MirrorLogs`

Whoever verifies writes them: the runner, a command, the console. The newest result of a part replaces the older one. So
a table is as well verified as its part that was compared longest ago.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.base import clock
from engine.base.durable import write_atomically
from engine.journal.verification_summary import Summary, Unreadable
from engine.pipeline import formats
from engine.pipeline.directory import Directory
from engine.pipeline.verification_records import Details, LastAudit, MirrorLogs
from engine.spec.folder_names import folder_name

_LONGEST_NAME = 200
RESNAPSHOTTED = "it was resnapshotted since"
"""Why a table is stale whose mirror was replaced."""


def read_mirror_logs(directory: Directory) -> MirrorLogs:
    """What the runner knows of the mirrors' logs; empty if it has read none, or a newer version wrote it."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        record = json.loads((directory.verifications / "mirrors.json").read_text(encoding="utf-8"))
        if formats.version_of(record) <= formats.VERSIONS["verification"]:
            return MirrorLogs.from_json(record)
    return MirrorLogs()


def save_mirror_logs(directory: Directory, logs: MirrorLogs) -> None:
    """Save what the runner knows of the mirrors' logs. Raises OSError."""
    directory.verifications.mkdir(parents=True, exist_ok=True)
    record = formats.stamped("verification", logs.to_json())
    write_atomically(directory.verifications / "mirrors.json", json.dumps(record, ensure_ascii=False))


def mirror_logs_changed(directory: Directory) -> float:
    """When they were last saved: seconds since 1970; 0 if they were not."""
    return _changed(directory.verifications / "mirrors.json")


def read_audit(directory: Directory) -> LastAudit | None:
    """The last audit; None if there was none, or a newer version wrote it."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        record = json.loads((directory.verifications / "audit.json").read_text(encoding="utf-8"))
        if formats.version_of(record) <= formats.VERSIONS["verification"]:
            clock.parse_utc(record["at"])
            return LastAudit.from_json(record)
    return None


def save_audit(directory: Directory, audit: LastAudit) -> None:
    """Save the last audit. Raises OSError."""
    directory.verifications.mkdir(parents=True, exist_ok=True)
    record = formats.stamped("verification", audit.to_json())
    write_atomically(directory.verifications / "audit.json", json.dumps(record, ensure_ascii=False))


def read_summaries(directory: Directory) -> dict[str, Summary]:
    """The summaries by table; empty if nothing was verified, or a newer version wrote them."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        record = json.loads((directory.verifications / "summary.json").read_text(encoding="utf-8"))
        if formats.version_of(record) <= formats.VERSIONS["verification"]:
            return {name: Summary.from_json(one) for name, one in record["tables"].items()}
    return {}


def summaries_changed(directory: Directory) -> float:
    """When the summaries were last changed: seconds since 1970; 0 if there are none."""
    return _changed(directory.verifications / "summary.json")


def _changed(file: Path) -> float:
    with suppress(OSError):
        return file.stat().st_mtime
    return 0.0


def read_details(directory: Directory, table: str) -> Details:
    """A table's parts and differences; empty if there are none."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        record = json.loads(_file(directory, table).read_text(encoding="utf-8"))
        return Details.from_json(table, record)
    return Details(table)


def save(directory: Directory, summaries: Mapping[str, Summary], details: Sequence[Details]) -> None:
    """Save new summaries, beside those of other tables and later ones of these, and details. Raises OSError."""
    (directory.verifications / "tables").mkdir(parents=True, exist_ok=True)
    for one in details:
        record = formats.stamped("verification", one.to_json())
        write_atomically(_file(directory, one.table), json.dumps(record, ensure_ascii=False, default=str))
    if not summaries:
        return
    with locked(directory):
        earlier = read_summaries(directory)
        newer = {
            name: one for name, one in summaries.items() if name not in earlier or _order(one) >= _order(earlier[name])
        }
        tables = {name: one.to_json() for name, one in {**earlier, **newer}.items()}
        record = formats.stamped("verification", {"tables": tables})
        write_atomically(directory.verifications / "summary.json", json.dumps(record, ensure_ascii=False))


def _order(summary: Summary) -> tuple[int, str]:
    """Another process may have saved a later result since: results are saved in this order."""
    return summary.generation, summary.last


def _file(directory: Directory, table: str) -> Path:
    name = folder_name(table)
    short = name if len(name) <= _LONGEST_NAME else f"{name[:120]}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    return directory.verifications / "tables" / f"{short}.json"


@contextmanager
def locked(directory: Directory) -> Iterator[None]:
    """Keep other processes from saving meanwhile.

    Not reentrant: `save` locks while it saves summaries. Raises OSError.
    """
    directory.verifications.mkdir(parents=True, exist_ok=True)
    with (directory.verifications / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def stale_at_s(at: str, period_s: float) -> float:
    """When a table whose oldest part was compared at `at` is stale: seconds since 1970."""
    return clock.parse_utc(at).timestamp() + 2 * period_s


def was_compared(summary: Summary | None, version: int) -> bool:
    """Whether all rows of a mirror were compared at this version or later ones."""
    if summary is None or not summary.at or summary.level != "rows":
        return False
    return summary.version is not None and summary.version >= version


def has_proved(summary: Summary | None, version: int) -> bool:
    """Whether all rows of a mirror were compared at this version or later ones, and none differs."""
    return summary is not None and not summary.differences and was_compared(summary, version)


def unreadable(summary: Summary | None, generation: int) -> Unreadable | None:
    """Why a table's mirror cannot be read, and what to do; None if it can, as far as known.

    generation: of its current snapshot.
    """
    return summary.unreadable if summary is not None and summary.generation == generation else None
