"""A proxy between a reader and a server that damages a fixed number of blocks."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from tests.servers import Server

_BLOCK = 1 << 16


class DamagingProxy:
    """Forwards connections to a server. In the first `times` blocks that contain `marker` it flips one bit."""

    def __init__(self, server: Server, marker: bytes, times: int) -> None:
        self._address, self._marker, self._left = (server.host, server.port), marker, times
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.damaged = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._address)
                for source, sink, change in ((near, far, bytes), (far, near, self._damage)):
                    threading.Thread(target=_forward, args=(source, sink, change), daemon=True).start()

    def _damage(self, data: bytes) -> bytes:
        at = data.find(self._marker)
        if at < 0 or self.damaged >= self._left:
            return data
        self.damaged += 1
        return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def _forward(source: socket.socket, sink: socket.socket, change: Callable[[bytes], bytes]) -> None:
    with suppress(OSError), source, sink:
        while data := source.recv(_BLOCK):
            sink.sendall(change(data))
        sink.shutdown(socket.SHUT_RDWR)
