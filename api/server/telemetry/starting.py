"""Starts telemetry where the environment asks for it, and says in one line why it cannot.

OpenTelemetry is imported here and only then. A server is never kept from starting by it.
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
    """Return what tells a collector of requests; None where nothing is to be told.

    Args:
        environment: The process's variables.
        version: The program's.
        secret: A text that nothing that is sent may hold: the server's key.
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
        # Without the text of the error: it may quote a variable that holds a key.
        _log.warning(
            "telemetry is off: OpenTelemetry cannot be started as its variables (OTEL_…) have it "
            "(%s)",
            type(error).__name__,
        )
    return None
