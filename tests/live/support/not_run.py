"""The commands and snippets of the documentation that `test_docs.py` does not run, each with its reason."""

_PACKAGES = "installs packages"
_TESTS = "runs these very tests"

NOT_RUN = {
    "pipx install .": _PACKAGES,
    "python3 -m venv .venv": _PACKAGES,
    ".venv/bin/pip install .": _PACKAGES,
    "docker build -t tidemark .": "needs Docker and a network; tests/unit/test_dockerfile.py checks the image's parts",
    "make setup": _PACKAGES,
    "make demo": "runs until it is interrupted; the browser's tests start its parts",
    "make check": _TESTS,
    "make test": _TESTS,
    "make soak": _TESTS,
    ".venv/bin/python -m pytest tests/live/test_values.py -k mariadb": _TESTS,
    ".venv/bin/python -m pytest tests/unit/plan": _TESTS,
    ".venv/bin/python -m pytest tests/browser/test_story.py -k mouse": _TESTS,
    ".venv/bin/python -m pytest tests/unit/destination/test_contract.py -k parquet": _TESTS,
    ".venv/bin/python -m tests.browser.gallery FOLDER": "takes minutes",
    "make bench": "takes many minutes",
    "python -m engine.spark.class_archive": "takes a minute; tests/live/test_early_start.py runs it",
    "make docs": "writes into the repository; tests/unit/docs/test_reference.py compares what it would write",
    "tidemark watch": "runs until it is interrupted; tests/live/test_watchdog.py runs it",
    "tidemark watch HOME": "runs until it is interrupted; tests/live/test_watchdog.py runs it",
    "tidemark verify SPEC --sink reports": "needs a database; tests/live/test_verify_databases.py has one",
    "tidemark read SPEC shop.orders --table-format iceberg": "it has Delta tables alone; test_iceberg.py runs it",
    "tidemark verify SPEC --format iceberg": "it has Delta tables alone; test_iceberg.py runs it",
    "tidemark withdraw SPEC COMMAND_ID": "needs a command that waits while no runner is alive; test_queue.py has one",
    "mysqlbinlog --verify-binlog-checksum": "a program of the server's, with arguments that only the reader knows",
    "sql: SELECT status, count(*) FROM iceberg_scan('lake/shop/orders__iceberg') GROUP BY status;": "DuckDB 2.0 has no "
    "Iceberg extension; tests/live/test_iceberg.py reads so with 1.5",
    "python: def write(spark, table, changes, epoch):": "tests/live/test_writers.py calls it",
    "python: import polars as pl": "Polars is not installed",
    "python: from pyspark.sql import SparkSession": "the session needs Delta Lake's package, "
    "which comes from the network",
}
"""A command as it is written, or the language and the first line of a block."""

SHORTENED = {
    "python -m tests.tools.bench.database_sink": ("--rows", "2000", "--rounds", "1"),
    "python -m tests.tools.bench.kafka_sink": ("--changes", "2000", "--rounds", "1"),
    "python -m tests.tools.bench.epochs": ("--tables", "3", "--epochs", "1"),
    "python -m tests.tools.bench.starts": ("--rounds", "1", "--warm", "0", "--no-archive"),
    "python -m tests.tools.bench.store": ("--rows", "2000", "--rounds", "1"),
    "python -m tests.tools.bench.xa": ("--changes", "1000", "--rounds", "1"),
    "python -m tests.tools.bench.steady": ("--rows", "2000", "--minutes", "0.1"),
    "python -m tests.tools.bench.mirror --rows 10000000 --key uuid": ("--rows", "2000", "--merges", "3"),
    "python -m tests.tools.bench.console": (
        *("--rounds", "1", "--tables", "20", "--chunks", "50", "--runs", "2", "--pipelines", "2"),
        *("--only", "Overview", "pipelines"),
    ),
    "python -m tests.tools.bench.verify": ("--rows", "2000", "--tables", "3", "--rounds", "0"),
    "python -m tests.tools.bench.year": ("--epochs", "100", "--days", "2", "--tables", "3", "--months", "1"),
}
"""Benchmarks that take long, and the arguments with which they take seconds."""
