"""Periods of a spec, such as `30d`."""

import re

_PERIOD = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def period_s(text: str) -> float:
    """The seconds of a period such as `30d`, `12h`, `90m` or `10s`. Raises ValueError."""
    match = _PERIOD.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a period such as 30d, 12h, 90m or 10s")
    return float(match[1]) * _UNIT_S[match[2]]
