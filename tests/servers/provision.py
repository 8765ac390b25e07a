"""``python -m tests.servers.provision``: fetch what is missing, prepare data directories; instant when done."""

import sys

from tests.servers.azure import azurite
from tests.servers.binaries import NEWEST, NoServerError, find
from tests.servers.bucket import NoBucketError, gateway
from tests.servers.datadir import template
from tests.servers.options import FLAVORS, Options
from tests.support.readers import FRAMES


def main() -> int:
    """Prepare servers and other readers of Delta tables.

    Returns 1 and prints the reason to stderr if one is not available.
    """
    failed = False
    wanted = [*((flavor, "") for flavor in FLAVORS), ("mariadb", NEWEST)]
    for flavor, release in wanted:
        try:
            program = find(flavor, release)
            template(program, Options.of(flavor, release=release))
        except NoServerError as error:
            sys.stderr.write(f"{flavor}: {error}\n")
            failed = True
        else:
            sys.stdout.write(f"{flavor} {program.version} is ready\n")
    try:
        name = "localbucket" if (built := gateway()) is None else built.parent.name
        sys.stdout.write(f"{name} is ready\n")
    except NoBucketError as error:
        sys.stderr.write(f"bucket: {error}\n")
        failed = True
    try:
        missing = azurite() is None
        sys.stdout.write("azurite is skipped: npm and node are missing\n" if missing else "azurite is ready\n")
    except NoBucketError as error:  # its few tests are skipped
        sys.stderr.write(f"azurite is skipped: {error}\n")
    FRAMES.python()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
