"""Imports commands without work that most runs do not need. Any thread."""

import contextlib
import ssl
from collections.abc import Iterator
from typing import Any

from engine.processes.collector import collector_paused


@contextlib.contextmanager
def importing_command() -> Iterator[None]:
    """Wrap the import of a command that serves or asks over HTTP."""
    with collector_paused(), _certificates_read_later():
        yield


@contextlib.contextmanager
def _certificates_read_later() -> Iterator[None]:
    """Delay the reading of the system's certificates until the first connection.

    aiohttp reads them for its client when it is imported, which takes 25 ms and 2.5 MB; a server
    never opens connections. See ``_make_ssl_context`` in
    https://github.com/aio-libs/aiohttp/blob/master/aiohttp/connector.py.
    """
    read = ssl.SSLContext.load_default_certs

    def note(context: ssl.SSLContext, purpose: Any = ssl.Purpose.SERVER_AUTH) -> None:
        if type(context) is ssl.SSLContext:
            context.__class__ = _ReadsLater
            vars(context)["purpose"] = purpose
        else:
            read(context, purpose)

    ssl.SSLContext.load_default_certs = note  # type: ignore[assignment]
    try:
        yield
    finally:
        ssl.SSLContext.load_default_certs = read  # type: ignore[method-assign]


class _ReadsLater(ssl.SSLContext):
    """A TLS context that reads the system's certificates before its first connection.

    Without them, no server would be trusted.
    """

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        self._read()
        return super().wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        self._read()
        return super().wrap_bio(*args, **options)

    def _read(self) -> None:
        purpose = vars(self).pop("purpose", None)
        if purpose is not None:
            self.load_default_certs(purpose)
