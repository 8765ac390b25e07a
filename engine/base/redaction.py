"""Removes secrets from everything that is shown: one place for every output.

The outputs are the journal, `runner.json`, status, errors, logs, the console, the bundle, the command line and Spark's
web UI. Secrets are removed in two ways: by value, which a process `learn`s whenever it reads one (passwords, salt,
webhook, tokens, secret Spark settings, secret environment variables), and by form (`password=…`, addresses with a
password).

Only texts written for people are cleaned. Chunk bounds, keys and table names are data and must stay unchanged.
"""

import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

GONE = "***"
HIDDEN = (
    r"(?i)secret|passw(?:or)?d|passphrase|token|credential|salt|webhook|signature|\bsas\b|key(?!tab)"
    r"|fs\.s3a\.|env\.|jceks"
)
"""Names of settings whose values are hidden. Spark's web UI gets it too (`spark.redaction.regex`)."""
USERINFO = r"://[^\s/:@]+:[^\s/@]+@"
"""An address that contains a password."""
_HIDDEN, _ADDRESS = re.compile(HIDDEN), re.compile(r"(://[^\s/:@]+):[^\s/@]+@")
_ADDRESS_PASSWORD = re.compile(r"://[^\s/:@]+:([^\s/@]+)@")
_SECRET = re.compile(
    r"(?i)((?:password|passwd|passphrase|secret|token|access[_.-]?key|api[_.-]?key)['\"]?\s*[=:]\s*"
    r"|\bIDENTIFIED\s+(?:BY|WITH)\b[^'\"]{0,60}(?=['\"]))"
    r"(?!['\"]?\*\*\*(?:['\",;)\s]|$)|(?:YES|NO)\))('(?:[^'\\]|\\.)*'?|\"(?:[^\"\\]|\\.)*\"?|[^\s'\",;)]+)"
)
_VARIABLE = re.compile(
    r"(?i)SECRET|PASSWORD|PASSPHRASE|TOKEN|CREDENTIAL|(?:ACCESS|ACCOUNT|MASTER|SAS|ENCRYPTION)_KEY|SALT|WEBHOOK"
)
_HARMLESS = re.compile(r"true|false|\d{1,6}[a-z]{0,2}|(?:org|com|software)\.[a-z][\w.]*\.[A-Z]\w*|https?://[\w.:-]+/?")
"""Values of hidden settings that are no secrets: switches, numbers, Java classes, plain addresses. They may appear
elsewhere."""
_SHORT, _SHORTEST_VARIABLE, _SHORTEST_PIECE = 4, 8, 8
"""A value shorter than `_SHORT` is only replaced as a whole word; otherwise nothing would stay readable. Shorter
variables, and shorter pieces of an address, are not learnt."""
TEXTS = frozenset({"message", "detail", "hint", "reason", "error", "spec", "statement", "what", "spark", "source"})
"""Journal fields written for people; all others are data."""


class KnownSecrets:
    """The known secret values. Thread-safe."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._lock = threading.Lock()
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Learn values, as they are and as written in JSON and addresses.

        Multi-line values are also learnt line by line.
        """
        new = {part for value in values for part in (value, value.strip(), *value.splitlines()) if part.strip()}
        with self._lock:
            if new <= self._values:
                return
            self._values |= new
            self._pattern = re.compile("|".join(_forms(self._values)))

    def remove(self, text: str) -> tuple[str, int]:
        """Remove the known values from a text. Returns the text and the number of removals."""
        return self._pattern.subn(GONE, text) if self._pattern else (text, 0)


def _forms(values: Iterable[str]) -> Iterable[str]:
    for value in sorted(values, key=len, reverse=True):
        short = len(value) < _SHORT
        yield rf"(?<!\w){re.escape(value)}(?!\w)" if short else re.escape(value)
        for other in (json.dumps(value)[1:-1], quote(value, safe=""), quote(value)):
            if other != value:
                yield re.escape(other)


_KNOWN = KnownSecrets()


def learn(*values: str | None) -> None:
    """Remember these values as secret in this process. Parts of an address that may be a token count separately."""
    _KNOWN.add(part for value in values if value for part in (value, *_parts(value)))


def _parts(value: str) -> list[str]:
    if "://" not in value:
        return []
    try:
        parts = urlsplit(value)
    except ValueError:
        return []
    values = [value for _, value in parse_qsl(parts.query)]
    pieces = [part for part in (*parts.path.split("/"), *values) if len(part) >= _SHORTEST_PIECE]
    return [p for p in (parts.password, parts.path.strip("/"), parts.query, *pieces) if p and len(p) >= _SHORT]


def secret_in(file: Path | str) -> str:
    """The secret in a file, without the newlines at its end, from now on known as one. Raises OSError."""
    value = Path(file).read_text(encoding="utf-8").rstrip("\n")
    learn(value)
    return value


def learn_environment() -> None:
    """Learn the values of environment variables whose names say that they are secret."""
    values = (value for name, value in os.environ.items() if _VARIABLE.search(name))
    learn(*(v for v in values if len(v) >= _SHORTEST_VARIABLE and not _HARMLESS.fullmatch(v)))


def learn_settings(conf: Mapping[str, str]) -> None:
    """Learn the secrets among Spark settings."""
    learn(*(str(v) for name, v in conf.items() if hidden(name) and not _HARMLESS.fullmatch(str(v))))
    for value in map(str, conf.values()):
        learn(*_ADDRESS_PASSWORD.findall(value), *(match[1].strip("'\"") for match in _SECRET.findall(value)))


def hidden(name: str) -> bool:
    """Whether the values of settings with this name are hidden."""
    return _HIDDEN.search(name) is not None


def holds_secret(name: str, value: str) -> bool:
    """Whether a setting must not appear where everybody can read it, such as a command line."""
    return (hidden(name) and not _HARMLESS.fullmatch(value)) or redact(value) != value


def redact(text: str) -> str:
    """The text without known secrets, and without anything that looks like a secret's value."""
    return _SECRET.sub(rf"\1{GONE}", _ADDRESS.sub(rf"\1:{GONE}@", _KNOWN.remove(text)[0]))


def clean(value: Any) -> Any:
    """A JSON value with all texts redacted, and without the values of hidden Spark settings (`conf`)."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: _settings(one) if name == "conf" else clean(one) for name, one in value.items()}
    return [clean(one) for one in value] if isinstance(value, list | tuple) else value


def _settings(conf: Any) -> Any:
    if not isinstance(conf, Mapping):
        return clean(conf)
    return {name: GONE if hidden(name) else clean(value) for name, value in conf.items()}


def clean_line(line: Mapping[str, Any]) -> dict[str, Any]:
    """A journal line with its texts (`TEXTS`) redacted; data is unchanged."""
    return {name: clean(value) if name in TEXTS else value for name, value in line.items()}


def clean_toml(text: str) -> str:
    """A spec's text for people: hidden settings are removed by name, everything else as in any text.

    Nothing is parsed.
    """
    return redact(_ASSIGNED.sub(lambda match: _assigned(match[1], match[2]), text))


_ASSIGNED = re.compile(r'(?m)((?:"[^"\n]*"|\'[^\'\n]*\'|[\w.-]+)\s*=\s*)("(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\')')
_REFERENCE = re.compile(r"_(?:env|file)['\"]?\s*=|chunk_key|\bkey\s*=")


def _assigned(name: str, value: str) -> str:
    is_secret = hidden(name) and not _REFERENCE.search(name)
    return f'{name}"{GONE}"' if is_secret else name + value


class Scrubber:
    """Removes secrets from texts and counts them. secrets: in addition to those that this process knows."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.removed = 0
        self._own = KnownSecrets(secrets)

    def toml(self, text: str) -> str:
        """A spec's text without secrets (`clean_toml`)."""
        before, text = text.count(GONE), clean_toml(text)
        self.removed += max(text.count(GONE) - before, 0)
        return text

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for secrets in (self._own, _KNOWN):
            text, count = secrets.remove(text)
            self.removed += count
        lines = []
        for line in text.split("\n"):
            cleaned = redact(line)
            self.removed += max(cleaned.count(GONE) - line.count(GONE), 0)
            lines.append(cleaned)
        return "\n".join(lines)
