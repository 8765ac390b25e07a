"""One HTTP POST of JSON to a webhook, whose address never appears in what is returned.

The runner posts alerts with it (`run.observe.webhook`), and the console tests a webhook with it.
"""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from engine import __version__

_TIMEOUT_S = 10.0
_WORTH_ANOTHER_TRY = (408, 425, 429)
"""4xx answers that are worth a retry, like all 5xx answers."""


@dataclass(frozen=True)
class Answer:
    """What became of a message."""

    status: int | None
    """The HTTP status of a webhook that accepted the message; None if it did not."""
    problem: str = ""
    """Why it was not accepted, without the address; empty if it was."""
    retry: bool = False
    """Whether another try makes sense."""


class Poster:
    """Posts to one webhook."""

    def __init__(self, url: str) -> None:
        self._url, self._opener = url, _opener()

    def post(self, body: bytes) -> Answer:
        """Post once; takes 10 s at most if the webhook does not answer."""
        headers = {"Content-Type": "application/json", "User-Agent": f"tidemark/{__version__}"}
        try:
            with self._opener.open(Request(self._url, body, headers), timeout=_TIMEOUT_S) as answer:  # noqa: S310 - settings.webhook
                return Answer(int(answer.status))
        except HTTPError as error:
            with error:
                retry = error.code >= 500 or error.code in _WORTH_ANOTHER_TRY
                return Answer(None, f"it answered {error.code}", retry)
        except URLError as error:
            return Answer(None, self._without_address(str(error.reason)), retry=True)
        except (OSError, HTTPException) as error:
            return Answer(None, self._without_address(f"{type(error).__name__}: {error}"), retry=True)
        except ValueError as error:  # urllib rejects the address; the error's message may contain it
            return Answer(None, f"its address cannot be used ({type(error).__name__})")

    def _without_address(self, text: str) -> str:
        parts = urlsplit(self._url)
        for secret in (self._url, f"{parts.path}?{parts.query}", parts.path.strip("/"), parts.query):
            text = text.replace(secret, "***") if secret else text
        return text


def message(event: str, ts: str, pipeline: str, run: str | None, alert: Mapping[str, Any]) -> dict[str, Any]:
    """What a webhook receives. alert: the fields of `events.AlertRaised`."""
    return {"event": event, "ts": ts, "pipeline": pipeline, "run": run, "host": socket.gethostname(), **alert}


def send_test(url: str, pipeline: str, ts: str, actor: str) -> Answer:
    """Post a message of the event `alert.test`, with the fields of an alert. ts: UTC text. actor: who sends it."""
    alert = {
        "kind": "test",
        "table": None,
        "value": None,
        "threshold": None,
        "message": f"{actor or 'An operator'} tests the webhook of {pipeline}. Nothing is wrong.",
        "hint": "You need not do anything.",
        "since": ts,
        "repeat": 0,
    }
    return Poster(url).post(json.dumps(message("alert.test", ts, pipeline, None, alert), ensure_ascii=False).encode())


def _opener() -> OpenerDirector:
    """An opener that follows no redirects: urllib would turn one into a GET without the body."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler(), HTTPErrorProcessor()):
        opener.add_handler(handler)
    return opener
