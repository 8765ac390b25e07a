"""The names of pipelines and sinks."""

import re

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NAME_RULE = "it begins with a letter or digit, followed by letters, digits, - and _; 64 characters at most"
