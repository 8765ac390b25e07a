"""What must not be shown, and its removal: one place for every way out.

The ways out are the journal, `runner.json`, status, errors, logs, the console, the bundle, the command line and Spark's pages.
Secrets are removed twice: by their values, which a process `learn`s whenever it reads one (passwords, salt, webhook, tokens, secret
settings of Spark, secret variables of the environment), and by what looks like one (`password=…`, addresses with a password).

Only texts are cleaned that are written for people. Bounds, keys and names of tables are data: they must stay as they are.
"""

import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

GONE = "***"
HIDDEN = r"(?i)secret|passw(?:or)?d|passphrase|token|credential|salt|webhook|signature|\bsas\b|key(?!tab)|fs\.s3a\.|env\.|jceks"
"""Names of settings whose values are not shown. Spark's own pages get it too (`spark.redaction.regex`)."""
USERINFO = r"://[^\s/:@]+:[^\s/@]+@"
"""An address with a password in it."""
_HIDDEN, _ADDRESS = re.compile(HIDDEN), re.compile(r"(://[^\s/:@]+):[^\s/@]+@")
_ADDRESS_PASSWORD = re.compile(r"://[^\s/:@]+:([^\s/@]+)@")
_SECRET = re.compile(
    r"(?i)((?:password|passwd|passphrase|secret|token|access[_.-]?key|api[_.-]?key)['\"]?\s*[=:]\s*"
    r"|\bIDENTIFIED\s+(?:BY|WITH)\b[^'\"]{0,60}(?=['\"]))"
    r"(?!['\"]?\*\*\*(?:['\",;)\s]|$))('(?:[^'\\]|\\.)*'?|\"(?:[^\"\\]|\\.)*\"?|[^\s'\",;)]+)"
)
_VARIABLE = re.compile(r"(?i)SECRET|PASSWORD|PASSPHRASE|TOKEN|CREDENTIAL|ACCESS_KEY|SALT|WEBHOOK")
_HARMLESS = re.compile(r"true|false|\d{1,6}[a-z]{0,2}|(?:org|com|software)\.[a-z][\w.]*\.[A-Z]\w*|https?://[\w.:-]+/?")
"""Values of hidden settings that are no secret: switches, numbers, classes of Java, plain addresses. Elsewhere they may stand."""
_SHORT, _SHORTEST_VARIABLE, _SHORTEST_PIECE = 4, 8, 8
"""A shorter value is replaced where it is a word: everywhere would leave nothing to read. A shorter variable, or piece of an
address, is not learnt."""
TEXTS = frozenset({"message", "detail", "hint", "reason", "error", "spec", "statement", "what", "spark", "source"})
"""Fields of journal lines that are written for people; all others are data."""


class Known:
    """The values that are known to be secret; safe to use from several threads."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._lock = threading.Lock()
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Know these too, as they are and as JSON and addresses write them. Those of several lines are known line by line too."""
        new = {part for value in values for part in (value, value.strip(), *value.splitlines()) if part.strip()}
        with self._lock:
            if new <= self._values:
                return
            self._values |= new
            self._pattern = re.compile("|".join(_forms(self._values)))

    def remove(self, text: str) -> tuple[str, int]:
        """The text without them, and how many there were."""
        return self._pattern.subn(GONE, text) if self._pattern else (text, 0)


def _forms(values: Iterable[str]) -> Iterable[str]:
    for value in sorted(values, key=len, reverse=True):
        short = len(value) < _SHORT
        yield rf"(?<!\w){re.escape(value)}(?!\w)" if short else re.escape(value)
        for other in (json.dumps(value)[1:-1], quote(value, safe=""), quote(value)):
            if other != value:
                yield re.escape(other)


_KNOWN = Known()


def learn(*values: str | None) -> None:
    """Know that these are secret, in this process from now on. Parts of an address that may hold a token count by themselves."""
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


def learn_environment() -> None:
    """Know the values of this process's variables whose names say that they are secret."""
    found = (value for name, value in os.environ.items() if _VARIABLE.search(name))
    learn(*(v for v in found if len(v) >= _SHORTEST_VARIABLE and not _HARMLESS.fullmatch(v)))


def learn_settings(conf: Mapping[str, str]) -> None:
    """Know the secrets among settings of Spark."""
    learn(*(str(v) for name, v in conf.items() if hidden(name) and not _HARMLESS.fullmatch(str(v))))
    for value in map(str, conf.values()):
        learn(*_ADDRESS_PASSWORD.findall(value), *(found[1].strip("'\"") for found in _SECRET.findall(value)))


def hidden(name: str) -> bool:
    """Whether the value of a setting of this name is not shown."""
    return _HIDDEN.search(name) is not None


def holds_secret(name: str, value: str) -> bool:
    """Whether a setting may not stand where everybody can read it, such as a command line."""
    return (hidden(name) and not _HARMLESS.fullmatch(value)) or redact(value) != value


def redact(text: str) -> str:
    """The text without known secrets and without what looks like the value of one."""
    return _SECRET.sub(rf"\1{GONE}", _ADDRESS.sub(rf"\1:{GONE}@", _KNOWN.remove(text)[0]))


def clean(value: Any) -> Any:
    """A JSON value with all its texts redacted, and with the values of hidden settings of Spark (`conf`) gone."""
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
    """A line of the journal with its texts (`TEXTS`) redacted; what is data stays as it is."""
    return {name: clean(value) if name in TEXTS else value for name, value in line.items()}


def clean_toml(text: str) -> str:
    """A spec's text, for people: hidden settings are gone by their names, all else as in any text. Nothing is parsed."""
    return redact(_ASSIGNED.sub(lambda found: _assigned(found[1], found[2]), text))


_ASSIGNED = re.compile(r'(?m)((?:"[^"\n]*"|\'[^\'\n]*\'|[\w.-]+)\s*=\s*)("(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\')')
_REFERENCE = re.compile(r"_(?:env|file)['\"]?\s*=|chunk_key|\bkey\s*=")


def _assigned(name: str, value: str) -> str:
    shown = hidden(name) and not _REFERENCE.search(name)
    return f'{name}"{GONE}"' if shown else name + value


class Scrubber:
    """Removes secrets from texts, and counts them. secrets: beside those that this process knows."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.removed = 0
        self._own = Known(secrets)

    def toml(self, text: str) -> str:
        """A spec's text without secrets (`clean_toml`)."""
        before, text = text.count(GONE), clean_toml(text)
        self.removed += max(text.count(GONE) - before, 0)
        return text

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for known in (self._own, _KNOWN):
            text, count = known.remove(text)
            self.removed += count
        lines = []
        for line in text.split("\n"):
            cleaned = redact(line)
            self.removed += max(cleaned.count(GONE) - line.count(GONE), 0)
            lines.append(cleaned)
        return "\n".join(lines)
