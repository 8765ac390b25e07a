"""A proxy before a store: it drops requests, loses answers after the work is done, refuses, cuts, delays, hangs."""

import http.client
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

from engine.store.bucket_folder import BucketFolder

Fault = Literal["", "403", "503", "lost", "cut", "slow", "hung", "dropped"]
_LOOK_S = 0.1
_EXPIRED = b"<Error><Code>InvalidAccessKeyId</Code><Message>expired</Message></Error>"
_SLOW_S = 1.0
_HOP = ("transfer-encoding", "connection", "content-length")


class StoreFaults(ThreadingHTTPServer):
    """The proxy. `fault` decides for each request, by its method and its path; `met` counts the faults."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = port
        self.fault: Callable[[str, str], Fault] = lambda _method, _path: ""
        self.met = Counter[str]()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StoreFaults

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.fault(self.command, self.path)
        self.server.met[fault] += 1
        if fault in ("403", "503"):
            self._answer(int(fault), {}, _EXPIRED if fault == "403" else b"")
            return
        if fault == "dropped":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if fault == "slow":
            time.sleep(_SLOW_S)
        if fault == "hung":
            while self.server.fault(self.command, self.path) == "hung":
                time.sleep(_LOOK_S)
        behind = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
        try:
            behind.request(self.command, self.path, body, dict(self.headers.items()))
            response = behind.getresponse()
            content = response.read()
            size = response.getheader("Content-Length") or str(len(content))
            headers = {name: value for name, value in response.getheaders() if name.lower() not in _HOP}
        finally:
            behind.close()
        if fault == "lost":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._answer(
            response.status,
            headers | {"Content-Length": size},
            content[: len(content) // 2] if fault == "cut" else content,
        )
        if fault == "cut":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815 - as the base class has them

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
            self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def lost_once(word: str) -> Callable[[str, str], Fault]:
    """A fault for each request whose path has a word: its first answer is lost, but not those to its repetitions."""
    met = set[str]()

    def fault(method: str, path: str) -> Fault:
        request = f"{method} {path}"
        if word not in path or request in met:
            return ""
        met.add(request)
        return "lost"

    return fault


@contextmanager
def store_faults(port: int) -> Iterator[StoreFaults]:
    """A proxy before the store on a port, for the block."""
    proxy = StoreFaults(port)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


def through(proxy: StoreFaults, folder: BucketFolder) -> BucketFolder:
    """The same folder, reached through the proxy."""
    path = urlsplit(folder.settings.endpoint or "").path
    return replace(folder, settings=replace(folder.settings, endpoint=f"http://127.0.0.1:{proxy.port}{path}"))
