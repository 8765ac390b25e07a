"""Servers shared by a test run: one per set of options, the least recently used closed when there are too many."""

from collections import OrderedDict
from typing import Any

from tests.servers.options import Options
from tests.servers.server import Server, start

MOST_SERVERS = 6


class Pool:
    """Running servers by their options."""

    def __init__(self) -> None:
        """Start with none."""
        self._servers: OrderedDict[Options, Server] = OrderedDict()

    def get(self, flavor: str, **options: Any) -> Server:
        """The running server with these options, started now if there is none; do not stop it or set globals on it."""
        wanted = Options.of(flavor, **options)
        server = self._servers.pop(wanted, None)
        if server is not None and not server.alive:
            server.close()
            server = None
        if server is None:
            while len(self._servers) >= MOST_SERVERS:
                self._servers.popitem(last=False)[1].close()
            server = start(flavor, **options)
        self._servers[wanted] = server
        return server

    def close(self) -> None:
        """Close all."""
        while self._servers:
            self._servers.popitem()[1].close()
