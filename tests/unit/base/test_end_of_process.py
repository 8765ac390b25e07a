"""The end of a command's process."""

import subprocess
import sys

import pytest

_COMMAND = """
import atexit, ctypes, sys, threading, time
from engine import __main__ as command

aborts = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(lambda *_: ctypes.CDLL(None).abort())
ctypes.CDLL(None).on_exit(aborts, None)  # as a native library that is taken down under a thread

def app():
    threading.Thread(target=lambda: time.sleep(0.2) or print("joined")).start()
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    atexit.register(print, "atexit")
    print("said")
    sys.exit({code})

command.app = app
command.main()
"""


@pytest.mark.parametrize("code", [0, 5])
def test_threads_that_are_left_do_not_change_the_exit_code(code: int) -> None:
    """What was said is written, and other threads and exit functions have their turn.

    Native libraries are not taken down.
    """
    ended = subprocess.run(
        [sys.executable, "-c", _COMMAND.replace("{code}", str(code))], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout.split()) == (code, ["said", "joined", "atexit"]), ended.stderr


_PRINTING = """
import sys, typer
from engine.cli.command import guarded

@guarded
def verb():
    while True:
        print("a row " * 1000)

try:
    verb()
except typer.Exit as ended:
    sys.exit(ended.exit_code)
"""


def test_a_reader_that_has_enough_is_no_error() -> None:
    """`tidemark read … | head` ends as other programs do, without a word."""
    with subprocess.Popen([sys.executable, "-c", _PRINTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")
