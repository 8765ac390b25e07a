"""Private MySQL and MariaDB servers for tests, the demo and the benchmark.

They are real ones, on free local ports; Spark is in `spark`.

``start("mysql", gtid=False)`` gives a running `Server`; ``python -m tests.servers.provision`` fetches what is missing.
"""

from tests.servers.binaries import NEWEST
from tests.servers.options import FLAVORS, Options
from tests.servers.pool import Pool
from tests.servers.server import Server, start
from tests.servers.users import PASSWORD, USER, create_user

__all__ = ["FLAVORS", "NEWEST", "PASSWORD", "USER", "Options", "Pool", "Server", "create_user", "start"]
