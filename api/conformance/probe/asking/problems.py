"""What became of a connection, in words: a library's own text helps nobody. Pure; any thread."""

import aiohttp

# What a connection to a broken server raises; ValueError where a header is not what it must be.
BROKEN = (aiohttp.ClientError, OSError, ValueError)


def problem_of(error: Exception) -> str:
    """Return in words what became of a connection."""
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
