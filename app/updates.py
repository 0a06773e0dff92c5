"""Where the program came from, and the newest version there. Blocks; any thread."""

import json
import re
import shlex
import sys
import time
from functools import partial
from http.client import HTTPException
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from app import __version__
from ui.window.updates import Release, UpdateFailed, Updates

PYPI = "https://pypi.org/pypi/fullstop-chat/json"
BUNDLE_FEED = ""
"""JSON with ``version`` and ``url`` of the newest bundle; empty while none is published."""
_MAX_BYTES, _MAX_S = 4 << 20, 10.0
_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){0,3}")
_SOURCES = "This copy runs from a folder of its source. Update that folder."


def find_updates(feed: str = BUNDLE_FEED) -> Updates:
    """Return the place that has newer versions of this installation."""
    if getattr(sys, "frozen", False):
        if not feed:
            return Updates(__version__, reason="This copy knows no place that has newer versions.")
        return _from(feed, "")
    try:
        installed = distribution("fullstop-chat")
    except PackageNotFoundError:
        return Updates(__version__, reason=_SOURCES)
    command = _install_command(installed)
    if not command:
        return Updates(__version__, reason=_SOURCES)
    return _from(PYPI, command)


def newest_release(address: str, command: str, current: str = __version__) -> Release:
    """Return the newest version that an address names; the answer is not trusted."""
    if urlsplit(address).scheme != "https":
        raise UpdateFailed(f"{address} is not an https address.")
    return parse_release(_fetch(address), command, current)


def parse_release(content: bytes, command: str, current: str) -> Release:
    """Return the version in an answer of PyPI, or of the bundle's feed."""
    try:
        value: Any = json.loads(content)
        part = value["info"] if command else value
        version, url = part["version"], "" if command else part["url"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UpdateFailed("The answer is damaged: it names no version. Try later.") from None
    if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
        raise UpdateFailed("The answer is damaged: it names no version. Try later.")
    if not command and (not isinstance(url, str) or not re.fullmatch(r"https://[!-~]{1,500}", url)):
        raise UpdateFailed("The answer is damaged: its address is not an https address.")
    return Release(version, _numbers(version) > _numbers(current), command, url)


def _from(address: str, command: str) -> Updates:
    look = partial(newest_release, address, command)
    return Updates(__version__, urlsplit(address).hostname or "", look=look)


def _install_command(installed: Distribution) -> str:
    """Return the command that updates an installation; empty if it came from a folder or file."""
    if installed.read_text("direct_url.json") is not None:
        return ""
    python = shlex.quote(sys.executable)
    match (installed.read_text("INSTALLER") or "").strip():
        case "pip":
            return f"{python} -m pip install --upgrade fullstop-chat"
        case "uv" if Path(sys.prefix, "uv-receipt.toml").exists():
            return "uv tool upgrade fullstop-chat"
        case "uv":
            return f"uv pip install --python {python} --upgrade fullstop-chat"
        case _:
            return ""


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in re.findall(r"\d+", version)[:4]]
    return (*numbers, 0, 0, 0, 0)[:4]


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _fetch(address: str) -> bytes:
    """Return the body of an answer; refuses redirects, long bodies and slow ones."""
    host, end = urlsplit(address).netloc, time.monotonic() + _MAX_S
    request = Request(address, headers={"User-Agent": f"fullstop/{__version__}"})
    content = b""
    try:
        with build_opener(_NoRedirects).open(request, timeout=_MAX_S) as answer:
            while chunk := answer.read1(1 << 16):
                content += chunk
                if len(content) > _MAX_BYTES:
                    raise UpdateFailed(f"{host} sent more than {_MAX_BYTES >> 20} MB. Try later.")
                if time.monotonic() > end:
                    raise UpdateFailed(f"{host} took longer than {_MAX_S:.0f} s. Try later.")
    except HTTPError as error:
        raise UpdateFailed(f"{host} answered with HTTP {error.code}. Try later.") from None
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise UpdateFailed(
            f"{host} could not be reached ({reason}). Check the connection, and try again."
        ) from None
    return content
