"""The addresses of ``fullstop serve`` on this computer, in a file for each process. Blocks."""

import contextlib
import os
from collections.abc import Iterator

from app import paths
from app.private_files import made_private
from engine.files.safe_files import read_bounded


@contextlib.contextmanager
def register_server(url: str) -> Iterator[None]:
    """Let other commands find a server of this process at its address while it listens."""
    file = paths.servers_folder() / str(os.getpid())
    with contextlib.suppress(OSError):  # as in a read-only system: it is found at the usual port
        made_private(file.parent)
        file.write_text(url)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink()


def registered_addresses() -> list[str]:
    """Return the addresses of ``serve`` on this computer, whatever their ports are."""
    addresses = []
    for file in sorted(paths.servers_folder().glob("[0-9]*")):
        try:
            os.kill(int(file.name), 0)  # fails where the process has ended
            addresses.append(read_bounded(file).decode())
        except (OSError, ValueError):
            with contextlib.suppress(OSError):
                file.unlink()
    return addresses
