from collections.abc import Callable
from typing import Any

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.run import probe
from api.conformance.probe.values import ProbeOptions, Report
from tests.api.conformance.probe.small_server import SmallServer
from tests.support.asking import run

Probed = Callable[..., Report]


@pytest.fixture
def probed() -> Probed:
    """Probe a small server and return the report."""

    def work(make: Callable[[], SmallServer], on_progress: Any = None, **options: Any) -> Report:
        async def probing() -> Report:
            async with make().listening() as url:
                usual = {"timeout_s": 5.0, "patience_s": 0.5, "max_wait_s": 0.02}
                settings = {**usual, "model": "small", **options}
                settings.setdefault("dialect", WireDialect.MESSAGES)
                return await probe(ProbeOptions(url, **settings), on_progress)

        return run(probing())

    return work
