"""`python -m engine.spark.trial SPEC`: start or join the Spark that a spec asks for, as a run would, and say what was found.

One line of JSON: what the journal would hear of the session, or an error in its three parts. The console's button, and anyone
who wants to know before the copy. Nothing of the source is read; the destination's folder is made if the workers must see it.
"""

import json
import sys
from pathlib import Path

from engine.errors import TidemarkError
from engine.events import SparkFacts
from engine.settings import Spec, load
from engine.spark.session import open_session


def tried(spec: Spec) -> SparkFacts:
    """The session's description. Raises as `open_session`."""
    session = open_session(spec)
    try:
        return session.facts()
    finally:
        session.stop()


def main() -> int:
    """Try, print, and return the exit code of the command line."""
    try:
        print(json.dumps(tried(load(Path(sys.argv[1])))))  # noqa: T201
    except TidemarkError as error:
        print(json.dumps({**error.as_dict(), "exit_code": error.exit_code}))  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
