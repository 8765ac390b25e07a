"""Serves a run's metrics over HTTP on a local port, as OpenMetrics text."""

import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from engine.base.errors import SpecError
from engine.journal import Entry, Journal
from engine.ledger.state import State
from engine.pipeline.active_alert import Alert
from engine.pipeline.helpers import Helpers
from engine.spec.settings import Metrics
from engine.status.counters import Seen
from engine.status.metrics import families

_OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class _Quiet(WSGIRequestHandler):
    """Logs no requests."""

    timeout = 10.0

    def log_message(self, *_: Any) -> None:
        pass


class Exporter(Collector):
    """Counts journal events and serves the metrics until it is closed."""

    def __init__(
        self,
        pipeline: str,
        settings: Metrics,
        journal: Journal,
        helpers: Helpers,
        state: Callable[[], State | None],
        standing: Iterable[Alert] = (),
    ) -> None:
        """Start to serve. Raises SpecError when the port is not available.

        state: returns the committed state, or None before there is one. standing: alerts that an earlier run left
        active.
        """
        assert settings.port is not None
        self._pipeline = pipeline
        self._seen = Seen()
        self._lock = threading.Lock()
        self._helpers = helpers
        self._seen.alerts = {(alert.kind, alert.table or "") for alert in standing}
        self._state = state
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        self._app = make_wsgi_app(registry)
        try:
            self._server = make_server(settings.host, settings.port, self._answer, ThreadingWSGIServer, _Quiet)
        except OSError as error:
            raise SpecError(
                f"The metrics cannot be served on {settings.host}:{settings.port}: {error.strerror or error}.",
                detail="Nothing was started.",
                hint="Set metrics.port and metrics.host to a free address; each pipeline needs its own port.",
            ) from error
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()
        journal.listeners.append(self.hear)

    def hear(self, entry: Entry) -> None:
        """Count a line of the journal."""
        with self._lock:
            self._seen.hear(entry)

    def collect(self) -> Iterable[Metric]:
        """The metrics for a scrape."""
        with self._lock:
            return list(families(self._pipeline, self._seen, self._state()))

    def describe(self) -> Iterable[Metric]:
        """Nothing: there is no other collector whose names could collide."""
        return ()

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                self._server.serve_forever()
            except Exception as error:  # noqa: BLE001 - missing metrics must be reported
                self._helpers.failed("metrics", error)
                self._closing.wait(1.0)

    def close(self) -> None:
        """Stop the server and free the port."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        """Serve OpenMetrics to clients that accept anything (curl); Prometheus asks for it by name."""
        accept = environ.get("HTTP_ACCEPT", "*/*")
        return self._app({**environ, "HTTP_ACCEPT": _OPENMETRICS if accept == "*/*" else accept}, start_response)
