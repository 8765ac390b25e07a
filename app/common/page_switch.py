"""A timer of the page before does not blank the page that was just opened.

The browser's timers ask for runs of fragments, and name the page that the browser shows. If the server is about to
switch to another page, such a request waits until that page has run, and then runs for the page before (Streamlit
1.67). The server announces the run with its page. The browser clears everything that it shows if that is not the page
that it has, or if it has not drawn the new page yet. The page is then blank until it is opened again. On a loaded
machine, that happened to one click in sixty; `tests/browser/test_starved.py` has it at every second one.

So a run that a timer has asked for on another page than the one that ran last is skipped. The new page has timers of
its own, which ask again.
"""

from collections.abc import Callable
from functools import wraps

from streamlit.runtime.scriptrunner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

_ScriptRun = Callable[[ScriptRunner, RerunData], None]


def keep_page() -> None:
    """Skip such runs from now on; once per process."""
    run: _ScriptRun = ScriptRunner._run_script  # noqa: SLF001 - Streamlit has no public place for it
    if not hasattr(run, "__wrapped__"):
        ScriptRunner._run_script = unless_left(run)  # type: ignore[method-assign, assignment]  # noqa: SLF001


def unless_left(run: _ScriptRun) -> _ScriptRun:
    """`ScriptRunner._run_script` without the runs of timers whose page was left."""

    @wraps(run)
    def run_unless_left(runner: ScriptRunner, request: RerunData) -> None:
        page = runner._get_script_run_ctx().page_script_hash  # noqa: SLF001 - as above
        if request.is_auto_rerun and request.fragment_id_queue and request.page_script_hash != page:
            return
        run(runner, request)

    return run_unless_left
