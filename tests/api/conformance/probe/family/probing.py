"""Probes a server of the family."""

import ssl
from typing import Any

from api.conformance.probe.run import probe
from api.conformance.probe.values import OnProgress, ProbeOptions, Report
from tests.api.conformance.probe.family.server import FamilyServer
from tests.support.asking import run


def report_on(
    server: FamilyServer,
    tls: ssl.SSLContext | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Report:
    async def probing() -> Report:
        async with server.listening(tls) as url:
            usual: dict[str, Any] = {
                "timeout_s": 60.0,
                "max_wait_s": 0.01,
                "grace_s": server.grace_s,
            }
            usual |= {"dialect": server.dialect, "only": server.only}
            usual["patience_s"] = server.patience_s
            return await probe(ProbeOptions(url, **{**usual, **options}), on_progress)

    return run(probing(), timeout_s=300)
