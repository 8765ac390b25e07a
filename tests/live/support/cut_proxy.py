"""A proxy between a host and a server. Its network can be cut: connections stand still, new ones get no answer."""

import socket
import threading
from contextlib import suppress
from typing import Self

from tests.servers import Server

_BLOCK = 1 << 16


class CutProxy:
    """Forwards connections to a server. `cut` is whether the network is gone."""

    def __init__(self, server: Server) -> None:
        self._address = (server.host, server.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._whole = threading.Event()
        self._whole.set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def cut(self) -> bool:
        """Whether the network is gone."""
        return not self._whole.is_set()

    @cut.setter
    def cut(self, cut: bool) -> None:
        if cut:
            self._whole.clear()
        else:
            self._whole.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._whole.wait()
        far = socket.create_connection(self._address)
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError), source, sink:
            while data := source.recv(_BLOCK):
                self._whole.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
