"""`python -m tests.browser.starved run …`: Streamlit on a machine without time, by its event loop's account.

What the script draws waits a second before it is sent, as it does when the processor is taken by others; the order of
all things is Streamlit's own. So a test meets in a minute what a busy machine meets once a day.
"""

import sys

from streamlit.runtime import runtime
from streamlit.web import cli

FLUSH_S = 1.0


def main() -> None:
    """Streamlit's own command line, with the pause between two sendings made long."""
    runtime.MESSAGE_FLUSH_INTERVAL_SECS = FLUSH_S  # type: ignore[misc]
    sys.argv[0] = "streamlit"
    cli.main()


if __name__ == "__main__":
    main()
