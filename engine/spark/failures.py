"""Converts failures of Spark to errors of ours, by their text, which is the same in both kinds of session. Pure."""

import re
from collections.abc import Callable, Sequence

from engine.base.errors import (
    DiskFullError,
    PreflightError,
    SparkLostError,
    StoreRefusedError,
    StoreUnreachableError,
    TidemarkError,
    TransientError,
    trace_ending,
)

_HOST = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor")
_MEANINGS: tuple[tuple[str, type[TidemarkError], str, str, str], ...] = (
    (
        # The system's text for it, with the file if it names one. Tasks report missing permissions themselves
        # (capture.write_faults): only they know which folders are the pipeline's.
        r"(?P<sign>(?:No space left on device|Disk quota exceeded|Read-only file system)(?:: '[^']*')?)",
        DiskFullError,
        "A task {where} could not write ({sign}).",
        "Nothing of it was published. Tidemark retries when it can be written.",
        "Make room in the destination and in the workers' own folders (spark.local.dir), or make them writable.",
    ),
    (
        r"(?P<sign>The store does not answer: [^\n]*)",
        StoreUnreachableError,
        "A task {where} could not write ({sign}).",
        "Nothing of it was published. Tidemark retries when the store answers.",
        "If it lasts, make sure that the store runs, and that the workers reach it.",
    ),
    (
        r"(?P<sign>(?:The store refuses the credentials|No credentials for the store are found): [^\n]*)",
        StoreRefusedError,
        "A task {where} could not write ({sign}).",
        "Nothing of it was published. Tidemark retries when the store accepts the credentials.",
        "Renew the credentials that the workers find, or give them the permissions of docs/s3.md or docs/azure.md.",
    ),
    (
        r"different(?: minor)? version:? (?P<there>\d+\.\d+)\S* than that in driver:? (?P<here>\d+\.\d+)",
        PreflightError,
        "Spark's workers {where} run Python {there}, and this runner Python {here}.",
        "Code travels between them as bytecode, which needs the same minor version on both sides.",
        (
            "Install Python {here} and the packages of requirements.txt there and {remedy}; "
            "or start the runner with Python {there}."
        ),
    ),
    (
        r"ModuleNotFoundError: No module named '(?P<package>\w+)|\[PACKAGE_NOT_INSTALLED\] (?P<named>\S+) ",
        PreflightError,
        "A worker {where} lacks the Python package {package}{named}.",
        "Workers that were present at the start had it. Committed data is complete.",
        (
            "Install the packages of requirements.txt there, or {remedy}; then run again: "
            "it continues from the last commit."
        ),
    ),
    (
        r'Cannot run program "(?P<python>[^"]+)"',
        PreflightError,
        "Spark's workers {where} have no Python interpreter {python}.",
        "Readers are Python workers: nothing can be read there.",
        "Install it there, or {remedy}.",
    ),
    (
        (
            r"(?P<sign>INVALID_HANDLE\.SESSION\w+|SESSION_CLOSED|NO_ACTIVE_SESSION|UNAVAILABLE|RETRIES_EXCEEDED"
            r"|^(?:ConnectionRefused|ConnectionReset|ConnectionAborted|BrokenPipe)Error"
            r"|trying to connect to the Java server"
            r"|Answer from Java side is empty|while sending or receiving|stopped SparkContext"
            # Py4J's answer for a connection that broke during a call; an error of Java has a trace.
            r"|^(?:Py4JError: |PySparkValueError: \[CANNOT_PARSE_DATATYPE\] .*)An error occurred while calling \S+$"
            # What it says of a class when the connection broke while it asked for it.
            r"|^Py4JError: \S+ does not exist in the JVM$"
            r"|SparkContext (?:was|has been) (?:shut down|stopped)|All masters are unresponsive"
            r"|Master removed our application)"
        ),
        SparkLostError,
        "Spark at {master} cannot be reached, or has ended the session ({sign}).",
        "Committed data is complete; the rest is read again.",
        "Start Spark on that host, then run `tidemark run SPEC` again; it resumes from the last commit.",
    ),
    (
        (
            r"(?P<sign>Python worker exited unexpectedly|Python worker failed to connect back|ExecutorLostFailure"
            r"|executor \S+ exited)"
        ),
        TransientError,
        "A task lost its worker {where} ({sign}) on each of Spark's attempts.",
        "Nothing of it was published. Tidemark retries.",
        "If it keeps failing, the workers may lack memory: smaller chunks (snapshot.target_bytes) need less.",
    ),
)
"""Pattern, error, message, detail, hint. The first match wins: a session that ends loses its workers too.

A text that begins with a broken connection is about this process's connection to the driver.
"""


def explained(text: str, master: str, remedy: str, hosts: Callable[[], Sequence[str]]) -> TidemarkError | None:
    """The error of ours for a failure of Spark; None if it is unknown, and so may be a bug of ours.

    Of an unknown failure in Python, the last line is the message; the caller logs the trace.

    remedy: how to set another interpreter for the workers. hosts: called if a worker lacks something and Spark does not
    say which worker (it omits that from errors of Python).
    """
    for pattern, kind, *parts in _MEANINGS:
        if match := re.search(pattern, text):
            named = {name: value or "" for name, value in match.groupdict().items()}
            nodes = set(_HOST.findall(text)) or set(hosts() if kind is PreflightError else ())
            facts = {"where": _where(sorted(nodes), master), "master": master, "remedy": remedy}
            message, detail, hint = (part.format(**facts, **named) for part in parts)
            return kind(message, detail=detail, hint=hint)
    if (ending := trace_ending(text)) == text:
        return None
    nodes = set(_HOST.findall(text))
    return TidemarkError(
        f"A task {_where(sorted(nodes), master)} failed: {ending}",
        detail="Nothing of it was published. Committed data is complete.",
        hint="Fix the cause, then run again: it continues from the last commit. If it persists, report it with "
        "`tidemark bundle SPEC`: the runner's log has the whole trace.",
    )


def _where(hosts: Sequence[str], master: str) -> str:
    if len(hosts) == 1:
        return f"on {hosts[0]}"
    return f"on one of {', '.join(hosts)}" if hosts else f"of {master}"
