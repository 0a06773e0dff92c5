"""The engine's requests that a server makes from HTTP requests."""

from collections.abc import Callable
from typing import Any

import pytest


def watched(site: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list to which each request to the engine is added."""
    asked: list[Any] = []
    generate: Callable[..., Any] = site.engine.generate_together

    async def note(requests: Any) -> Any:
        asked.extend(requests)
        return await generate(requests)

    monkeypatch.setattr(site.engine, "generate_together", note)
    return asked
