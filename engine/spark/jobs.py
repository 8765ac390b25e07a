"""Runs tasks as one Spark job, one task per partition, and collects their reports."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.capture.reports import ReaderReport, from_bytes, to_bytes
from engine.capture.tasks import Task

_SCHEMA = "report binary"


def run_tasks(spark: SparkSession, tasks: Sequence[Task]) -> list[ReaderReport]:
    """Run the tasks, one per Spark task, and return all their reports; blocks. Works in classic and Connect sessions.

    Spark's attempt number is added to each report as `attempt`. Raises whatever Spark raises if a task fails on all
    attempts.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for report in tasks[number].run():
                    data = to_bytes(replace(report, attempt=context.attemptNumber()))
                    yield pa.record_batch([pa.array([data], pa.binary())], names=["report"])

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, _SCHEMA)
    return [from_bytes(bytes(row.report)) for row in frame.collect()]
