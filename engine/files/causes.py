"""Says in plain words why the operating system or the network refused something. Pure; any thread.

The text of an ``OSError`` ("[Errno 28] No space left on device: '/a/b'") is meant for logs.
"""

import errno
import os
import re
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_TOO_LONG = "it took too long"
_NO_ADDRESS = "the address was not found: check it, and the connection to the internet"
_NOT_TRUSTED = "the other side could not be trusted: its certificate was not accepted"
_CLOSED = "the connection was closed by the other side"
_BROKEN = "the connection failed"
# What the libraries of systems say of a name that has no address.
_UNKNOWN_NAME = re.compile(
    r"Name or service not known|nodename nor servname|name resolution|getaddrinfo failed", re.I
)
_NETWORK_LIBRARIES = frozenset(
    {"httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3", "aiohttp", "anyio"}
)
# Parts of the names of their exceptions.
_KINDS = (
    ("Timeout", _TOO_LONG),
    ("TimedOut", _TOO_LONG),
    ("SSL", _NOT_TRUSTED),
    ("Certificate", _NOT_TRUSTED),
    ("Proxy", "the proxy does not let it through: check the proxy settings"),
    ("RemoteProtocol", _CLOSED),
    ("ReadError", _CLOSED),
    ("Disconnected", _CLOSED),
    ("Chunked", _CLOSED),
    ("Incomplete", _CLOSED),
    ("Connect", "nothing answers at that address"),
)
# A path in quotes may contain spaces; without quotes it ends at the first, unless it begins with a
# folder that every system has, or with NUL, which stands for a folder of this one. URLs are no
# paths.
_PATH = re.compile(
    r"""(?P<quote>["'`])(?:\0?/(?:(?!(?P=quote)).)*)(?P=quote)
    |(?:\0|(?<![\w/:.<\0])/(?:Applications|Library|Users|Volumes|private|data|home|media|mnt|opt|root|run
        |srv|tmp|usr|var)(?=/))
        /(?:[^/\s:\0](?:[^/\n:\0]*[^/\s:\0])?/)*[^\s/'"`]*
    |(?<![\w/:.<])/(?:[^\s/'"`]+/)+[^\s/'"`]*""",
    re.VERBOSE,
)

_CAUSES = {
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "you have no permission to do that",
    errno.EPERM: "you have no permission to do that",
    errno.ENOENT: "there is no such file or folder",
    errno.ENOTDIR: "a part of its path is not a folder",
    errno.EISDIR: "it is a folder",
    errno.EEXIST: "there is already a file of that name",
    errno.EFBIG: "it is too large",
    errno.EIO: "the disk reported an error",
    errno.EMFILE: "too many files are open",
    errno.EADDRINUSE: "another program is using the port",
    errno.EADDRNOTAVAIL: "this computer does not have that address",
    errno.ECONNREFUSED: "nothing answers at that address",
    errno.ECONNRESET: _CLOSED,
    errno.ECONNABORTED: _CLOSED,
    errno.EPIPE: _CLOSED,
    errno.EHOSTUNREACH: "that address cannot be reached",
    errno.ENETUNREACH: "the network cannot be reached",
    errno.ETIMEDOUT: _TOO_LONG,
}


def os_cause(error: OSError) -> str:
    """Return why the operating system refused, as the end of a sentence without its stop."""
    if isinstance(error, TimeoutError):
        return _TOO_LONG
    if isinstance(error, socket.gaierror) or _UNKNOWN_NAME.search(str(error)):
        return _NO_ADDRESS
    if type(error).__module__ == "ssl":
        return _NOT_TRUSTED
    if type(error).__module__.partition(".")[0] in _NETWORK_LIBRARIES:
        return network_cause(error)
    if error.strerror is None:
        # Our own errors carry one sentence, which is written for people.
        return str(error).rstrip(".") or "the system gave no reason"
    cause = _CAUSES.get(error.errno or 0)
    if cause is not None:
        return cause
    return (error.strerror or "the system gave no reason").rstrip(".").lower()


def without_folders(text: str, *folders: Path) -> str:
    """Return a library's text with the last name of each path in it, for people far away."""
    for folder in folders:
        text = text.replace(str(folder), folder.name)
    for known, name in _known_folders():
        text = re.sub(rf"(?<![\w/]){re.escape(known)}(?=/[^\s/])", "\0", text)
        text = re.sub(rf"(?<![\w/]){re.escape(known)}/?(?![\w-])", name, text)
    return _PATH.sub(lambda match: _last_name(match[0], match["quote"] or ""), text)


def _known_folders() -> list[tuple[str, str]]:
    """Return this computer's folders, longest first, with the names that people far away may see.

    Programs are told by their environment where their files, models and caches are.
    """
    home = os.path.expanduser("~")
    folders = [home, tempfile.gettempdir(), sys.prefix, *os.environ.values()]
    with suppress(OSError):  # it has been deleted
        folders.append(os.getcwd())
    folders += [os.path.realpath(folder) for folder in folders if folder.startswith("/")]
    homes = (home, os.path.realpath(home))
    known = {
        folder.rstrip("/"): "~" if folder in homes else os.path.basename(folder.rstrip("/"))
        for folder in folders
        if folder.startswith("/") and folder.strip("/") and ":" not in folder
    }
    return sorted(known.items(), key=lambda item: -len(item[0]))


def _last_name(path: str, quote: str) -> str:
    return f"{quote}{path.strip(quote or None).rstrip('/').rpartition('/')[2]}{quote}"


def is_of_network(error: BaseException) -> bool:
    """Return whether a library for the network raised an error, or the system's network did."""
    library = type(error).__module__.partition(".")[0]
    return library in _NETWORK_LIBRARIES or isinstance(error, ConnectionError | socket.gaierror)


def network_cause(error: BaseException) -> str:
    """Return why a connection failed, as the end of a sentence without its stop.

    Libraries wrap the system's error, whose cause is looked for; their own texts are for logs.
    """
    kinds: list[str] = []
    link: BaseException | None = error
    while link is not None and len(kinds) < 10:
        library = type(link).__module__.partition(".")[0]
        if isinstance(link, OSError) and library not in _NETWORK_LIBRARIES and str(link):
            return os_cause(link)
        if _UNKNOWN_NAME.search(str(link)):
            return _NO_ADDRESS
        kinds.append(type(link).__name__)
        link = link.__cause__ or link.__context__
    return next((cause for part, cause in _KINDS if any(part in kind for kind in kinds)), _BROKEN)
