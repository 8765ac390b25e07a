"""The Spark session of this process, for what writes to a destination in threads of its own."""

from typing import Any

from engine.base.store_errors import StoreAwayError


def running_session() -> Any:
    """The session of the run. Raises StoreAwayError before it is there: a run starts it meanwhile."""
    from pyspark.sql import SparkSession

    session: Any = SparkSession._instantiatedSession  # noqa: SLF001 - the active one is that of a thread alone
    if session is None:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        session = ConnectSession._get_default_session()  # noqa: SLF001
    if session is None:
        raise StoreAwayError("Spark's session has not started yet.")
    return session
