"""Starts the JVM of Spark's driver, then loads the run's libraries, then runs.

Loading takes a second, and the JVM starts meanwhile, on another core. It ends with the run at the latest: PySpark ends
only a JVM that it was given, and a run that is refused must not wait for one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.spark.driver_process import start_early
from engine.spec.settings import Spec

if TYPE_CHECKING:
    from engine.run.lifecycle.runner import Listener

UNTIL = ("snapshot", "caught-up")
"""When a run can end."""


def start_run(
    spec: Spec,
    spec_file: Path,
    until: str | None,
    listener: "Listener | None" = None,
    *,
    standby: Callable[[str], None] | None = None,
    starting: Callable[[str], None] | None = None,
    as_json: bool = False,
) -> None:
    """As `engine.run.lifecycle.runner.run_pipeline`, in a process that has loaded little yet."""
    driver = start_early(spec.spark, standby=standby is not None)
    try:
        from engine.run.lifecycle.runner import run_pipeline

        run_pipeline(
            spec, spec_file, until, listener, standby=standby, starting=starting, driver=driver, as_json=as_json
        )
    finally:
        if driver is not None:
            driver.end()
