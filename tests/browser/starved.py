"""`python -m tests.browser.starved run …`: Streamlit as on an overloaded machine.

Messages wait a second before they are sent, as if the event loop got no CPU time; their order is Streamlit's own. So a
test sees in a minute what a busy machine sees once a day.
"""

import sys

from streamlit.runtime import runtime
from streamlit.web import cli

FLUSH_S = 1.0


def main() -> None:
    """Streamlit's command line, with a longer interval between two flushes."""
    runtime.MESSAGE_FLUSH_INTERVAL_SECS = FLUSH_S  # type: ignore[attr-defined]
    sys.argv[0] = "streamlit"
    cli.main()


if __name__ == "__main__":
    main()
