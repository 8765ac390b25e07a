"""One HTTP POST of JSON, whose address never appears in what is returned or logged."""

import json
import logging
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from engine import __version__
from engine.alerting.notify.notice import DeliveryResult
from engine.base.redaction import redact

TIMEOUT_S = 10.0
_WORTH_ANOTHER_TRY = (408, 425, 429)
"""4xx answers that are worth a retry, like all 5xx answers."""

for _name in ("httpx", "httpcore"):  # they log addresses
    logging.getLogger(_name).setLevel(logging.WARNING)


def post_json(url: str, content: Mapping[str, Any]) -> DeliveryResult:
    """Post once. No redirect is followed: it would turn the POST into a GET without the content."""
    body = json.dumps(content, ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json", "User-Agent": f"tidemark/{__version__}"}
    try:
        with (
            httpx.Client(timeout=TIMEOUT_S, verify=_authorities()) as client,
            client.stream("POST", url, content=body, headers=headers) as answer,
        ):
            return _answer(answer.status_code)
    except httpx.TimeoutException:
        return DeliveryResult(f"it did not answer within {TIMEOUT_S:.0f} s", retry=True)
    except (httpx.HTTPError, OSError) as error:
        return DeliveryResult(_without(url, str(error) or type(error).__name__), retry=True)
    except (httpx.InvalidURL, ValueError) as error:  # the error's message may contain the address
        return DeliveryResult(f"its address cannot be used ({type(error).__name__})")


@cache
def _authorities() -> ssl.SSLContext:
    """Reading the authorities takes some 50 ms of processor time: not for each of hundreds of alerts."""
    return httpx.create_ssl_context()


def _answer(status: int) -> DeliveryResult:
    if 200 <= status < 300:
        return DeliveryResult(status=status)
    return DeliveryResult(f"it answered {status}", retry=status >= 500 or status in _WORTH_ANOTHER_TRY)


def _without(url: str, text: str) -> str:
    parts = urlsplit(url)
    for secret in (url, f"{parts.path}?{parts.query}", parts.path.strip("/"), parts.query):
        text = text.replace(secret, "***") if secret else text
    return redact(text)
