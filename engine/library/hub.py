"""Requests to a hub of models, and its failures in plain words. Blocks.

huggingface_hub signs in, follows redirects and explains errors. But its ``list_models`` has no time
limit, and retries an unreachable hub for half a minute. So the requests are made here, as
https://huggingface.co/docs/hub/api describes them.
"""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from engine.errors import EngineError
from engine.files.causes import is_of_network, network_cause
from engine.files.json_fields import DamagedFile, parsed_json
from engine.wording import format_size

A = TypeVar("A")
T = TypeVar("T")

DownloadPhase = Literal["asking", "fetching", "verifying"]

_PUBLIC_HUB = "https://huggingface.co"
# For connecting, and for each part of an answer.
_REQUEST_TIMEOUT_S = 10.0
# For a whole answer.
_LIMIT_S = 20.0
_MAX_BYTES = 16 << 20


class HubFailed(EngineError):
    """A question or a download failed; the message says why and what would help."""


class HubCancelled(HubFailed):
    """A search or a download was cancelled on request; a partial download is kept."""


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """The progress of a download; ``total_bytes`` is 0 while the files are not known."""

    phase: DownloadPhase
    done_bytes: int = 0
    total_bytes: int = 0
    file: str = ""


@contextmanager
def hub_errors(repository: str = "", advice: str = "") -> Iterator[None]:
    """Turn the errors of huggingface_hub and the network inside the block into ``HubFailed``."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        if not (fault := _explain(error, repository)):
            raise
        raise HubFailed(f"{fault}. {advice}" if advice else fault) from error


def _explain(error: Exception, repository: str) -> str:
    """Return what went wrong and what would help; empty for an error of another kind."""
    from huggingface_hub import errors

    match error:
        case errors.OfflineModeIsEnabled():
            return "HF_HUB_OFFLINE is set; unset it to search the hub"
        case errors.GatedRepoError():
            return (
                f"{repository} is gated, so its terms have to be accepted first: open its page at "
                "huggingface.co and accept them, then sign in with “hf auth login”, or set HF_TOKEN"
            )
        case errors.RepositoryNotFoundError():
            return (
                f"there is no repository {repository}; a private one needs “hf auth login” or "
                "HF_TOKEN"
            )
        case errors.HfHubHTTPError():
            if error.response.status_code == 429:
                return (
                    "the hub was asked too often; wait a few minutes, or sign in with “hf auth "
                    "login”"
                )
            status = f"{error.response.status_code} {error.response.reason_phrase}".strip()
            if error.response.status_code >= 500:
                return f"the hub is not available at the moment ({status}); try again later"
            return f"the hub refused: {status}; try again later"
        case ValueError():
            return "the hub's answer cannot be read; try again later"
    if not isinstance(error, OSError) and not is_of_network(error):
        return ""
    if type(error).__name__.endswith("Timeout"):
        return "the hub did not answer in time; try again later"
    cause = network_cause(error)
    advice = "" if "the internet" in cause else "; check the connection to the internet"
    return f"the hub cannot be reached: {cause}{advice}"


@contextmanager
def requested(
    url: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """Request an address of the hub with the user's token; yield the response (httpx).

    Redirects are followed; another host is sent no token.
    """
    from huggingface_hub import constants, get_session, get_token, hf_raise_for_status

    given = dict(headers or {})
    if not constants.HF_HUB_DISABLE_IMPLICIT_TOKEN and (token := get_token()):
        given["authorization"] = f"Bearer {token}"
    with get_session().stream(
        "GET", url, params=params, headers=given, timeout=_REQUEST_TIMEOUT_S
    ) as response:
        if response.status_code >= 400:
            response.read()
            hf_raise_for_status(response)
        yield response


def parsed_reply(body: bytes) -> Any:
    """Return the JSON of a hub's answer; raises ``HubFailed``."""
    try:
        return parsed_json(body)
    except DamagedFile as error:
        raise HubFailed("the hub's answer cannot be read; try again later") from error


class Hub:
    """A hub, and requests to it.

    Args:
        endpoint: Its address; None for the environment's ``HF_ENDPOINT``, or huggingface.co.
        gives_up: Set on any thread to cancel the running requests.
    """

    def __init__(
        self, endpoint: str | None = None, gives_up: threading.Event | None = None
    ) -> None:
        self.address = (endpoint or os.environ.get("HF_ENDPOINT") or _PUBLIC_HUB).rstrip("/")
        self.gives_up = threading.Event() if gives_up is None else gives_up

    def page(self, repository: str) -> str:
        return f"{self.address}/{repository}"

    def get(
        self, path: str, params: Mapping[str, Any] | None = None, *, repository: str = ""
    ) -> tuple[bytes, str]:
        """Return an answer, and the address of its next page; raises ``HubFailed``.

        Raises ``HubCancelled`` at once when ``gives_up`` is set, whatever the network does.
        """
        [outcome] = self.at_once(lambda hub, path: hub.receive(path, params, repository), [path])
        return outcome.result()

    def receive(
        self, path: str, params: Mapping[str, Any] | None, repository: str
    ) -> tuple[bytes, str]:
        address = path if "://" in path else self.address + path
        if urlsplit(address)[:2] != urlsplit(self.address)[:2]:  # the token is for the hub alone
            raise HubFailed("the hub's list goes on at another address, which is not asked")
        self._check()
        body = bytearray()
        with hub_errors(repository), requested(address, params or None) as response:
            for part in response.iter_bytes():
                self._check()
                body += part
                if len(body) > _MAX_BYTES:
                    raise HubFailed(f"the hub's answer exceeds {format_size(_MAX_BYTES)}")
            following = str(response.links.get("next", {}).get("url") or "")
        return bytes(body), following

    def at_once(self, ask: Callable[["Hub", A], T], items: Iterable[A]) -> list[Future[T]]:
        """Ask about several things, a few at a time; return the outcomes, in the same order.

        A question that is not answered in time is dropped, and has failed; raises ``HubCancelled``.
        """
        pending = [(item, Future[T]()) for item in items]
        dropped = threading.Event()
        hub, untaken = Hub(self.address, dropped), deque(pending)

        def work() -> None:
            while untaken and not dropped.is_set():
                with contextlib.suppress(IndexError):  # another thread has taken the last one
                    item, outcome = untaken.popleft()
                    try:
                        outcome.set_result(ask(hub, item))
                    except BaseException as error:
                        outcome.set_exception(error)

        # Daemon threads, so that the program's end does not wait for the network.
        for _ in range(min(len(pending), 8)):
            threading.Thread(target=work, name="asks a hub", daemon=True).start()
        outcomes, ends_s = [outcome for _, outcome in pending], time.monotonic() + _LIMIT_S
        try:
            while wait(outcomes, 0.05).not_done and time.monotonic() < ends_s:
                self._check()
        finally:
            dropped.set()
        late = Future[T]()
        late.set_exception(
            HubFailed(f"the hub did not answer within {_LIMIT_S:.0f} s; try again later")
        )
        return [outcome if outcome.done() else late for outcome in outcomes]

    def _check(self) -> None:
        if self.gives_up.is_set():
            raise HubCancelled("the search was cancelled")
