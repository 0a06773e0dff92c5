"""Describes failed connections in plain words. Pure; any thread."""

import aiohttp

# Exceptions of a connection to a faulty server; ValueError for an invalid header.
BROKEN = (aiohttp.ClientError, OSError, ValueError)


def problem_of(error: Exception) -> str:
    """Describe why a connection failed."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "no computer has that name"
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate is not trusted; give --ca FILE, or --insecure to accept it"
        case aiohttp.ClientSSLError():
            return "no secure connection could be made; is it http rather than https?"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return "nothing listens there"
        case aiohttp.ClientConnectorError():
            return "it cannot be reached"
        case aiohttp.ServerDisconnectedError() | ConnectionError():
            return "the server closed the connection before its answer was whole"
        case aiohttp.ClientPayloadError():
            return "the answer broke off"
        case _:
            return "the answer is not valid HTTP"
