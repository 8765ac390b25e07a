"""Whether Spark's workers can write to the destination's bucket (`capture.tasks.WarmUp` tries it)."""

from collections.abc import Sequence

from engine.base.errors import PreflightError
from engine.capture.reports import FailureReport, ReaderReport
from engine.capture.store_reach import reach
from engine.store.folder import Folder


def require_access(reports: Sequence[ReaderReport], store: Folder | None) -> None:
    """Raises PreflightError with the hosts that cannot write to the bucket, unless this process cannot either.

    If nobody can, the bucket is away: the run waits for it, and so do its readers.
    """
    failures = [report for report in reports if isinstance(report, FailureReport)]
    if not failures or store is None:
        return
    try:
        reach(store)
    except OSError:
        return
    unable_hosts = ", ".join(sorted({report.reader.host for report in failures}))
    raise PreflightError(
        f"Spark's workers on {unable_hosts} cannot write to the destination, {store.url}: {failures[0].error.message}",
        detail="The runner can. Readers write their files by themselves, with their hosts' credentials and network. "
        "Nothing was read.",
        hint="Give the workers a role, or pass the runner's variables on in [spark.conf], such as "
        "spark.executorEnv.AWS_ACCESS_KEY_ID or spark.executorEnv.AZURE_STORAGE_ACCOUNT_KEY. The endpoint must be "
        "reachable from there.",
    )
