"""The end after a second Ctrl-C or SIGTERM: at once, whatever the run waits for. The ledger makes that safe."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress

LEAVE_S = 2.0
"""The longest that saying so may take."""


def leave(code: int, say: Callable[[], None]) -> None:
    """End the process with this exit code once `say` has returned or failed.

    Returns at once: its caller may hold any lock.
    """

    def end() -> None:
        with suppress(Exception):
            say()
        os._exit(code)

    late = threading.Timer(LEAVE_S, os._exit, (code,))
    late.daemon = True
    late.start()
    threading.Thread(target=end, daemon=True).start()
