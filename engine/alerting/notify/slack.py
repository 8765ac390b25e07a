"""Alerts for an incoming webhook of Slack."""

from typing import Any

from engine.alerting.notify.notice import CLEARED, Notice, footer, headline

_LONGEST = 3000
_SIGNS = {"critical": ":red_circle:", "warning": ":large_yellow_circle:"}


def slack_message(notice: Notice) -> dict[str, Any]:
    """The JSON to post. Slack's own signs are escaped, so no text of an error becomes a link or a mention."""
    sign = ":white_check_mark:" if notice.event == CLEARED else _SIGNS[notice.severity]
    lines = [f"{sign} *{_escaped(headline(notice))}*", _escaped(notice.message)]
    if notice.hint:
        lines.append(f"*What to do* {_escaped(notice.hint)}")
    return {"text": "\n".join([*lines, f"_{_escaped(footer(notice))}_"])}


def _escaped(text: str) -> str:
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
