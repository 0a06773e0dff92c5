"""Asks a hub, with limits of time and size; a request can be cancelled at once.

huggingface_hub signs in, follows redirects and explains errors. But its ``list_models`` has no time
limit, and retries an unreachable hub for half a minute. So this module makes the requests itself,
as https://huggingface.co/docs/hub/api describes them. Blocks; any thread but the window's and the
engine's.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from engine.files.fields import DamagedFile
from engine.files.json_items import json_value
from engine.library.hub_failures import HubCancelled, HubFailed, unanswered_in_words
from engine.library.hub_internals import keep_content, request_headers
from engine.wording import size_in_words

T = TypeVar("T")

_PUBLIC_HUB = "https://huggingface.co"
# For connecting, and for each part of an answer.
_REQUEST_TIMEOUT_S = 10.0
# Between two checks whether the request was cancelled.
_LOOK_EACH_S = 0.05
_MOST_REQUESTS_AT_ONCE = 8
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class HubReply:
    """A hub's answer to one request."""

    body: bytes
    next_page: str = ""

    def value(self) -> Any:
        """Return its JSON."""
        try:
            return json_value(self.body)
        except DamagedFile as error:
            raise HubFailed("the hub's answer cannot be read; try again later") from error


def warm_up() -> None:
    """Import what a request needs, so that the first one does not wait half a second for it.

    If a library cannot be imported, the first request reports it.
    """
    with contextlib.suppress(Exception):
        from huggingface_hub import get_session

        get_session()
        request_headers()


class Hub:
    """A hub, and requests to it.

    Args:
        endpoint: Its address; None for the environment's ``HF_ENDPOINT``, or huggingface.co.
        gives_up: Set on any thread to cancel the running requests.
    """

    def __init__(
        self, endpoint: str | None = None, gives_up: threading.Event | None = None
    ) -> None:
        self._address = (endpoint or os.environ.get("HF_ENDPOINT") or _PUBLIC_HUB).rstrip("/")
        self.gives_up = threading.Event() if gives_up is None else gives_up

    def page(self, repository: str) -> str:
        """Return the address of a repository's page, for a person's browser."""
        return f"{self._address}/{repository}"

    def get(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        repository: str = "",
        most_bytes: int = _MOST_BYTES,
    ) -> HubReply:
        """Make one request.

        Args:
            path: The path of the request, or the address of a next page.
            params: The parameters of the query.
            repository: The repository that it is about, for an error.
            most_bytes: A larger answer is an error.

        Raises:
            HubCancelled: ``gives_up`` is set.
            HubFailed: The message says why and what would help.
        """
        from huggingface_hub import get_session, hf_raise_for_status

        address = path if "://" in path else self._address + path
        if urlsplit(address)[:2] != urlsplit(self._address)[:2]:  # the token is for the hub alone
            raise HubFailed("the hub's list goes on at another address, which is not asked")
        self._check()
        body = bytearray()
        with (
            unanswered_in_words(repository),
            get_session().stream(
                "GET",
                address,
                params=params or None,
                headers=request_headers(),
                timeout=_REQUEST_TIMEOUT_S,
            ) as response,
        ):
            for part in response.iter_bytes():
                self._check()
                body += part
                if len(body) > most_bytes:
                    raise HubFailed(f"the hub's answer exceeds {size_in_words(most_bytes)}")
            keep_content(response, bytes(body))
            hf_raise_for_status(response)
            following = str(response.links.get("next", {}).get("url") or "")
        return HubReply(bytes(body), following)

    def within(self, limit_s: float, ask: Callable[["Hub"], T]) -> T:
        """Run ``ask`` on another thread, with a ``Hub`` of its own, and return its result.

        Raises:
            HubCancelled: ``gives_up`` was set; raised at once, whatever the network does.
            HubFailed: The time is over, or ``ask`` raised it.
        """
        [outcome] = self.at_once(limit_s, [ask])
        if not outcome.done():
            raise HubFailed(f"the hub did not answer within {limit_s:.0f} s; try again later")
        return outcome.result()

    def at_once(self, limit_s: float, questions: Iterable[Callable[["Hub"], T]]) -> list[Future[T]]:
        """Ask several things, a few at a time; return their outcomes when the time is over.

        Questions without an outcome by then are dropped.

        Raises:
            HubCancelled: ``gives_up`` was set.
        """
        asked = [(question, Future[T]()) for question in questions]
        dropped = threading.Event()
        rest, lock = iter(asked), threading.Lock()
        hub = Hub(self._address, dropped)

        def work() -> None:
            while not dropped.is_set():
                with lock:
                    taken = next(rest, None)
                if taken is None:
                    return
                question, outcome = taken
                try:
                    outcome.set_result(question(hub))
                except BaseException as error:
                    outcome.set_exception(error)

        # Daemon threads, so that the program's end does not wait for the network.
        for _ in range(min(len(asked), _MOST_REQUESTS_AT_ONCE)):
            threading.Thread(target=work, name="asks a hub", daemon=True).start()
        outcomes, ends_s = [outcome for _, outcome in asked], time.monotonic() + limit_s
        try:
            while not all(one.done() for one in outcomes) and time.monotonic() < ends_s:
                self._check()
                wait(outcomes, min(_LOOK_EACH_S, max(0.0, ends_s - time.monotonic())))
        finally:
            dropped.set()
        return outcomes

    def _check(self) -> None:
        if self.gives_up.is_set():
            raise HubCancelled
