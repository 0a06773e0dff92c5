"""Rewrites the log records of OpenTelemetry's packages as one line each, without secrets.

These packages log a traceback for each batch that the collector does not accept, and they quote
malformed headers, which may contain the collector's key. Any thread; imports nothing of
OpenTelemetry.
"""

import logging
import re
import time
from collections.abc import Mapping
from urllib.parse import unquote

_log = logging.getLogger(__name__)

_THEIRS = "opentelemetry"
_HEADER_PARSER = "opentelemetry.util.re"
_SILENCE_S = 60.0
_MOST_CHARACTERS = 300
_IN_ADDRESS = re.compile(r"//[^/@\s]*@")


class Complaints(logging.Handler):
    """Passes on their log records, each kind at most once a minute."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(logging.WARNING)
        self._secrets = _secrets_in(environment)
        self._told_at: dict[tuple[str, str], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record in one line of ours."""
        now_s = time.monotonic()
        kind = (record.name, str(record.msg))
        if now_s - self._told_at.get(kind, -_SILENCE_S) < _SILENCE_S:
            return
        self._told_at[kind] = now_s
        _log.warning("telemetry (answers are not affected): %s", self._text(record))

    def _text(self, record: logging.LogRecord) -> str:
        if record.name == _HEADER_PARSER:
            return "a header in OTEL_EXPORTER_OTLP_HEADERS or a request's baggage is malformed"
        text = " ".join(record.getMessage().split())
        for secret in self._secrets:
            text = text.replace(secret, "[hidden]")
        return _IN_ADDRESS.sub("//", text)[:_MOST_CHARACTERS]


def listen(environment: Mapping[str, str]) -> None:
    """Replace the log output of OpenTelemetry's packages by ours."""
    theirs = logging.getLogger(_THEIRS)
    theirs.handlers = [Complaints(environment)]
    theirs.propagate = False


def _secrets_in(environment: Mapping[str, str]) -> list[str]:
    """Return the header values that are sent to a collector, the longest first."""
    found = set()
    for name, text in environment.items():
        if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("HEADERS"):
            for pair in text.split(","):
                value = pair.partition("=")[2].strip()
                found |= {value, unquote(value), *value.split(), *unquote(value).split()}
    # Words such as Bearer are not secret, and hiding short words would hide half of a text.
    return sorted((one for one in found if len(one) > 6), key=len, reverse=True)
