"""``python -m tests.servers.provision``: fetch what is missing, prepare data directories; instant when done."""

import sys

from tests.servers.binaries import NoServerError, find
from tests.servers.datadir import template
from tests.servers.options import FLAVORS, Options
from tests.support.readers import FRAMES


def main() -> int:
    """Prepare servers and other readers of Delta tables; returns 1 and prints the reason to stderr if one is not available."""
    failed = False
    for flavor in FLAVORS:
        try:
            program = find(flavor)
            template(program, Options.of(flavor))
        except NoServerError as error:
            sys.stderr.write(f"{flavor}: {error}\n")
            failed = True
        else:
            sys.stdout.write(f"{flavor} {program.version} is ready\n")
    FRAMES.python()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
