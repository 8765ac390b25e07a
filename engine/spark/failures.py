"""What a failure of Spark means: from its text, which is the same in both kinds of session, to an error of ours. Pure."""

import re
from collections.abc import Callable, Sequence

from engine.errors import DiskFullError, PreflightError, SparkLostError, TidemarkError, TransientError

_HOST = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor")
_MEANINGS: tuple[tuple[str, type[TidemarkError], str, str, str], ...] = (
    (
        r"(?P<sign>No space left on device|Disk quota exceeded)",
        DiskFullError,
        "A task {where} found a disk full ({sign}).",
        "Nothing of it is published; it is tried again when there is room.",
        "Free space in the destination and in the workers' own folders (spark.local.dir).",
    ),
    (
        r"different(?: minor)? version:? (?P<there>\d+\.\d+)\S* than that in driver:? (?P<here>\d+\.\d+)",
        PreflightError,
        "Spark's workers {where} run Python {there}, and this runner Python {here}.",
        "Code travels between them as bytecode, which needs the same minor version on both sides.",
        "Install Python {here} and the packages of requirements.txt there and {remedy}; or start the runner with Python {there}.",
    ),
    (
        r"ModuleNotFoundError: No module named '(?P<package>\w+)|\[PACKAGE_NOT_INSTALLED\] (?P<named>\S+) ",
        PreflightError,
        "A worker {where} lacks the Python package {package}{named}.",
        "Workers that were there at the start had it. What was committed is whole.",
        "Install there what requirements.txt names, or {remedy}; then run again: it goes on from the last commit.",
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
            r"|^(?:ConnectionRefused|ConnectionReset|ConnectionAborted|BrokenPipe)Error|trying to connect to the Java server"
            r"|Answer from Java side is empty|while sending or receiving|stopped SparkContext"
            r"|SparkContext (?:was|has been) (?:shut down|stopped)|All masters are unresponsive|Master removed our application)"
        ),
        SparkLostError,
        "Spark at {master} cannot be reached, or has ended the session ({sign}).",
        "What is committed is whole; what was being read is read again.",
        "See to it that Spark runs there, then run again: it goes on from the last commit.",
    ),
    (
        (
            r"(?P<sign>Python worker exited unexpectedly|Python worker failed to connect back|ExecutorLostFailure"
            r"|executor \S+ exited)"
        ),
        TransientError,
        "A task lost its worker {where} ({sign}), as often as Spark tries one.",
        "Nothing of it is published; it is tried again.",
        "When it stays, the workers may lack memory: smaller chunks (snapshot.target_bytes) need less.",
    ),
)
"""Pattern, error, message, detail, hint. The first that is found says it: a session that ends loses its workers too.

A connection that breaks in this process, which is what the text begins with then, is the one to the driver.
"""


def explained(text: str, master: str, remedy: str, hosts: Callable[[], Sequence[str]]) -> TidemarkError | None:
    """The error of ours for a failure of Spark; None for one that is not known: it may be a fault of our own.

    remedy: where to name another interpreter for the workers. hosts: asked for where a worker lacks something and Spark does not
    say which one (it drops that from errors of Python).
    """
    for pattern, kind, *parts in _MEANINGS:
        if found := re.search(pattern, text):
            named = {name: value or "" for name, value in found.groupdict().items()}
            nodes = set(_HOST.findall(text)) or set(hosts() if kind is PreflightError else ())
            facts = {"where": _where(sorted(nodes), master), "master": master, "remedy": remedy}
            message, detail, hint = (part.format(**facts, **named) for part in parts)
            return kind(message, detail=detail, hint=hint)
    return None


def _where(hosts: Sequence[str], master: str) -> str:
    if len(hosts) == 1:
        return f"on {hosts[0]}"
    return f"on one of {', '.join(hosts)}" if hosts else f"of {master}"
