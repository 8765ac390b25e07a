"""`python -m engine.spark.trial SPEC`: start or join the Spark session of a spec, as a run would, and print the result.

Prints one line of JSON: the session as in the journal, or an error's fields. For the console's button, and for anyone
who wants to know before the snapshot. Nothing is read from the source. The destination's folder is created if the
workers must see it.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import TidemarkError
from engine.journal.event_fields import SparkFacts
from engine.spark.session import open_session
from engine.spec.settings import Spec, load


def try_session(spec: Spec) -> SparkFacts:
    """The session's description. Raises as `open_session`."""
    session = open_session(spec)
    try:
        return session.facts()
    finally:
        session.stop()


def main() -> int:
    """Try, print, and return the command line's exit code."""
    try:
        print(json.dumps(asdict(try_session(load(Path(sys.argv[1]))))))  # noqa: T201
    except TidemarkError as error:
        print(json.dumps({**error.as_dict(), "exit_code": error.exit_code}))  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
