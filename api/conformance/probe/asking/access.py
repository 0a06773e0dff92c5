"""How a server is reached: its key, headers, certificates and time limits.

Pure values, except that ``tls`` reads the file of certificates; any thread.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What every request to a server needs in addition to its dialect.

    Attributes:
        api_key: The key that the server requires, or None.
        headers: Headers in addition to those of the dialect.
        base_path: Replaces ``/v1`` in every path; None keeps the paths.
        timeout_s: How long one answer may take.
        longest_wait_s: The longest single wait for a busy server.
        grace_s: How long a connection may stay open after the end of its stream.
        is_insecure: Whether untrusted certificates are accepted.
        ca_file: Certificates to trust, in a PEM file; None for those of the system.
    """

    api_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    base_path: str | None = None
    timeout_s: float = 60.0
    longest_wait_s: float = 60.0
    grace_s: float = 5.0
    is_insecure: bool = False
    ca_file: Path | None = None

    def tls(self) -> ssl.SSLContext | bool:
        """Return the TLS settings with the trusted certificates; True for the system's.

        Raises:
            OSError: The file of certificates cannot be read, or is not one.
        """
        if self.ca_file is not None:
            return ssl.create_default_context(cafile=str(self.ca_file))
        return not self.is_insecure
