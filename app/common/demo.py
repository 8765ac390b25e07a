"""*Load the demo*: a private server with a busy shop, and the pipeline `demo` that copies it.

`tests/tools/demo_pipeline.py` does it, in a process of its own: it starts and removes everything, and ends with the
console. Only a checkout of the repository has it. Its files are in `.demo` in the folder of pipelines: the process
holds a lock on `lock`, so all consoles know of it; `log` has the steps; `end` asks it to end.
"""

import fcntl
import subprocess
import sys
from pathlib import Path
from threading import Lock

import streamlit as st

from app.common import access, engine, home, messages, places
from app.common.autorefresh import autorefresh
from app.common.view import demo_steps, words
from app.common.view.demo_steps import Demo

PIPELINE = "demo"
_MODULE = "tests.tools.demo_pipeline"
_PROGRAM = Path(*_MODULE.split(".")).with_suffix(".py")
_FOLLOW = "follow the demo"
_WHAT = (
    "The demo starts a private MySQL or MariaDB on this machine, fills three tables, writes to them 100 times a "
    "second, and copies them with the pipeline demo. It takes one processor core and a gigabyte of memory. It ends "
    "with *End the demo*, or with this console; then the server, the pipeline and the copied tables are deleted."
)


@st.cache_resource
def _started() -> "list[subprocess.Popen[bytes]]":
    """The last demo that this console started."""
    return []


@st.cache_resource
def _one_at_a_time() -> Lock:
    return Lock()


def _folder() -> Path:
    return home.home() / ".demo"


def offered() -> bool:
    """Whether this installation has the demo."""
    return access.operator() and (engine.ROOT / _PROGRAM).is_file()


def running() -> bool:
    """Whether a demo starts, runs or ends, in whichever console it was started."""
    if any(process.poll() is None for process in _started()):
        return True
    try:
        with (_folder() / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def state() -> Demo:
    """The demo now."""
    try:
        text = (_folder() / "log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    failed = any(process.poll() for process in _started())
    return demo_steps.state(text, running=running(), ending=(_folder() / "end").exists(), failed=failed)


def _load() -> None:
    with _one_at_a_time():
        st.session_state[_FOLLOW] = True
        if running():
            return
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "end").unlink(missing_ok=True)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, str(home.home())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=engine.ROOT,
            )
        _started()[:] = [process]


def _end() -> None:
    with _one_at_a_time():
        if running():
            (_folder() / "end").touch()


def button() -> None:
    """The button that starts the demo, where there is one."""
    if offered():
        st.button("Load the demo", icon=":material/science:", key="load-demo", on_click=_load)


def explanation() -> None:
    """What the demo starts, and how it ends."""
    if offered():
        st.caption(_WHAT, text_alignment="center")


def draw() -> None:
    """The steps of a demo that starts, the button that ends one that runs, or why it failed.

    The browser that started it goes to its pipeline as soon as that has a runner.
    """
    now = state()
    if now.phase == demo_steps.READY and st.session_state.pop(_FOLLOW, False):
        places.go_live(PIPELINE)
    if now.phase == demo_steps.FAILED and offered():
        messages.three_parts(
            f"The demo failed. {now.error}",
            "Its server, its pipeline and its tables are deleted.",
            demo_steps.REMEDY,
        )
    elif now.phase != demo_steps.NONE:
        _part(now.phase)


@autorefresh(0.5)
def _part(phase_on_page: str) -> None:
    now = state()
    if now.phase != phase_on_page:
        st.rerun()
    if now.phase == demo_steps.STARTING:
        with st.container(border=True):
            st.markdown("**Starting the demo**")
            st.markdown(demo_steps.markdown(now.steps))
    elif now.phase == demo_steps.ENDING:
        st.markdown(":gray[:material/hourglass_top: The demo is ending: its runner stops, then its server.]")
    else:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(
                f":gray[:material/science:] {words.escape(demo_steps.SUMMARY)}",
                width="stretch",
            )
            if access.operator():
                st.button("End the demo", icon=":material/stop_circle:", key="end-demo", on_click=_end)
