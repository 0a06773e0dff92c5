"""Qt without a screen, for the parts of the program that surround the window."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # The offscreen platform prints this for every window; it is not a fault of the program.
    config.addinivalue_line("qt_log_ignore", "This plugin does not support")


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    with ExitStack() as stack:

        def pipe(content: bytes) -> None:
            reading, writing = os.pipe()
            os.write(writing, content)
            os.close(writing)
            opened = stack.enter_context(os.fdopen(reading, encoding="utf-8"))
            monkeypatch.setattr(sys, "stdin", opened)

        yield pipe
