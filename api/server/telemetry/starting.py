"""Starts telemetry if environment variables ask for it, or logs in one line why it cannot.

OpenTelemetry is imported only then. A failure here never keeps the server from starting.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from api.server.telemetry.variables import VariableProblem, wanted_by

if TYPE_CHECKING:
    from api.server.telemetry.recording import Telemetry

_log = logging.getLogger(__name__)


def telemetry_for(
    environment: Mapping[str, str], version: str, secret: str | None
) -> "Telemetry | None":
    """Return the observer that reports requests to a collector; None if telemetry is off.

    Args:
        environment: The process's environment variables.
        version: The program's version.
        secret: A text that must never be sent: the server's key.
    """
    try:
        wanted = wanted_by(environment)
    except VariableProblem as problem:
        _log.warning("telemetry is off: %s", problem)
        return None
    if wanted is None:
        return None
    from api.server.telemetry.complaints import listen

    listen(environment)
    try:
        from api.server.telemetry.providers import telemetry

        return telemetry(wanted, version, secret)
    except ImportError:
        _log.warning(
            "telemetry is off: %s is set, but OpenTelemetry is not installed; install it with "
            "pip install 'fullstop-chat[telemetry]', or unset the variable",
            wanted.because,
        )
    except Exception as error:
        # The error's text is not logged: it may quote a variable that contains a key.
        _log.warning(
            "telemetry is off: OpenTelemetry cannot be started with these OTEL_… variables (%s)",
            type(error).__name__,
        )
    return None
