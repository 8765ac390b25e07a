"""Calls a writer with the rows of files, as DataFrames of the run's Spark session.

The contract of a function `(spark, table, changes, epoch)` stands in docs/destinations.md.
"""

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from engine.capture.binlog.row_changes import SNAPSHOT_SEQ, redump_changes
from engine.decode.schema import TM_KIND, Table
from engine.spark.running_session import running_session
from engine.spec.writer_settings import WriterSettings

_PLACEHOLDER = re.compile(r"\{(database|table|epoch|env:\w+)\}")
EPOCH = "_tm_epoch"
"""The column with the number of the epoch."""
COPY = "_tm_copy"
"""The column with the epoch with which the table's newest copy began; -1 for the first copy."""
Writer = Callable[[Any, str, Any, int], object]
"""Called with the Spark session, the full name of the table, a DataFrame of its changes, and the epoch."""


class WriterError(Exception):
    """A writer has failed. It is called again."""


def function_of(settings: WriterSettings) -> Writer:
    """The function of `type = "python"`. Raises WriterError if there is none of its name."""
    assert settings.function is not None, "the spec requires it"
    module, _, name = settings.function.replace(":", ".").rpartition(".")
    folder = str(settings.folder.absolute())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        function: Writer = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise WriterError(f"There is no function {settings.function}: {error}") from error
    except Exception as error:  # the module is the user's
        raise WriterError(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise WriterError(f"{settings.function} is no function")
    return function


def spark_writer(settings: WriterSettings) -> Writer:
    """A writer by `DataFrame.write`."""

    def write(_: Any, table: str, changes: Any, epoch: int) -> None:
        database, _, name = table.partition(".")
        names = {"database": database, "table": name, "epoch": str(epoch)}
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
    """Calls a writer. writer: gives it, or raises WriterError."""

    def __init__(self, writer: Callable[[], Writer]) -> None:
        self._writer = writer

    def write(self, table: Table, rows: pa.Table, epoch: int, copy: int) -> None:
        """Call it with some rows. copy: the epoch with which the table's newest copy began. Raises WriterError."""
        changes = rows if TM_KIND in rows.column_names else redump_changes(rows, "+I", None, SNAPSHOT_SEQ)
        for name, number in ((EPOCH, epoch), (COPY, copy)):
            changes = changes.append_column(name, pa.repeat(pa.scalar(number, pa.int64()), len(changes)))
        spark = running_session()
        try:
            self._writer()(spark, table.full_name, spark.createDataFrame(changes), epoch)
        except WriterError:
            raise
        except Exception as error:
            said = str(error).strip().partition("\n")[0]
            raise WriterError(
                f"The writer of {table.full_name} has failed in epoch {epoch}: {type(error).__name__}: {said}"
            ) from error
