"""Calls a writer with the rows of files, as DataFrames of the run's Spark session.

The contract of a function `(spark, table, changes, epoch)` stands in docs/destinations.md.
"""

import importlib
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from engine.capture.binlog.row_changes import SNAPSHOT_SEQ, redump_changes
from engine.decode.schema import TM_KIND, Table
from engine.spark.frames import frame_of
from engine.spark.running_session import running_session
from engine.spec.writer_settings import WriterSettings

_PLACEHOLDER = re.compile(r"\{(database|table|epoch|part|env:\w+)\}")
EPOCH = "_tm_epoch"
"""The column with the number of the epoch."""
COPY = "_tm_copy"
"""The column with the number of the copy that a row belongs to. A later copy has a larger one."""


@dataclass(frozen=True)
class Call:
    """Which rows a writer gets."""

    epoch: int
    copy: int
    part: str
    """Which of the calls of the epoch; the same if it is repeated."""


Writer = Callable[[Any, str, Any, Call], object]
"""Called with the Spark session, the full name of the table, and a DataFrame of its changes."""


class WriterError(Exception):
    """A writer has failed. It is called again."""


def function_of(settings: WriterSettings) -> Writer:
    """Calls the function of `type = "python"`. Raises WriterError if there is none of its name."""
    assert settings.function is not None, "the spec requires it"
    module, _, name = settings.function.replace(":", ".").rpartition(".")
    folder = str(settings.folder.absolute())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        function: Callable[[Any, str, Any, int], object] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise WriterError(f"There is no function {settings.function}: {error}") from error
    except Exception as error:  # the module is the user's
        raise WriterError(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise WriterError(f"{settings.function} is no function")
    return lambda spark, table, changes, call: function(spark, table, changes, call.epoch)


def spark_writer(settings: WriterSettings) -> Writer:
    """A writer by `DataFrame.write`."""

    def write(_: Any, table: str, changes: Any, call: Call) -> None:
        database, _, name = table.partition(".")
        names = {"database": database, "table": name, "epoch": str(call.epoch), "part": call.part}
        options = {key: _PLACEHOLDER.sub(partial(_value, names), value) for key, value in settings.options.items()}
        changes.write.format(settings.format).mode(settings.mode).options(**options).save()

    return write


def _value(names: Mapping[str, str], placeholder: re.Match[str]) -> str:
    """The value of a placeholder in an option. Raises WriterError."""
    if placeholder[1] in names:
        return names[placeholder[1]]
    variable = placeholder[1].removeprefix("env:")
    if (value := os.environ.get(variable)) is None:
        raise WriterError(f"The environment variable {variable}, which an option names, is not set")
    return value


class Writes:
    """Calls a writer, once at a time. writer: gives it, or raises WriterError."""

    def __init__(self, writer: Callable[[], Writer]) -> None:
        self._writer = writer
        self._lock = threading.Lock()

    def write(self, table: Table, rows: pa.Table, call: Call) -> None:
        """Call it with some rows. Raises WriterError."""
        changes = rows if TM_KIND in rows.column_names else redump_changes(rows, "+I", None, SNAPSHOT_SEQ)
        for name, number in ((EPOCH, call.epoch), (COPY, call.copy)):
            changes = changes.append_column(name, pa.repeat(pa.scalar(number, pa.int64()), len(changes)))
        spark = running_session()
        try:
            with self._lock:
                self._writer()(spark, table.full_name, frame_of(spark, changes), call)
        except WriterError:
            raise
        except Exception as error:
            said = str(error).strip().partition("\n")[0]
            raise WriterError(
                f"The writer of {table.full_name} has failed in epoch {call.epoch}: {type(error).__name__}: {said}"
            ) from error
