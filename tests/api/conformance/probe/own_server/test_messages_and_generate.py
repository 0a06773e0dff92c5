"""Our own server passes every check of Messages and /generate."""

from typing import Any

import pytest

from api.conformance.captures.values import WireDialect
from tests.api.conformance.probe.own_server.everything_holds import check_everything

pytestmark = pytest.mark.long


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [WireDialect.MESSAGES, WireDialect.GENERATE])
def test_every_check_passes(site: Any, dialect: WireDialect) -> None:
    check_everything(site, dialect)
