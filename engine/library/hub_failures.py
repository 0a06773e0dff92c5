"""Turns the errors of questions to a hub, and of downloads, into plain words.

Any thread. huggingface_hub is imported when a download begins.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import EngineError, ModelLoadFailed
from engine.files.causes import is_of_network, network_cause, os_cause
from engine.library.download_progress import DownloadCancelled, DownloadFailed
from engine.library.verifying import Damaged
from engine.wording import size_in_words

_TOO_MANY_REQUESTS = 429


class HubFailed(EngineError):
    """A hub did not answer a question; the message says why and what would help."""


class HubCancelled(HubFailed):
    """The question was cancelled because somebody asked for it."""

    def __init__(self) -> None:
        super().__init__("the search was cancelled")


@contextmanager
def unanswered_in_words(repository: str = "") -> Iterator[None]:
    """Turn the errors of a question to a hub inside the block into ``HubFailed``."""
    from huggingface_hub import errors

    try:
        yield
    except EngineError:
        raise
    except errors.OfflineModeIsEnabled as error:
        raise HubFailed("HF_HUB_OFFLINE is set; unset it to search the hub") from error
    except errors.GatedRepoError as error:
        raise HubFailed(_gated(repository)) from error
    except errors.RepositoryNotFoundError as error:
        raise HubFailed(_not_found(repository)) from error
    except errors.HfHubHTTPError as error:
        if getattr(error.response, "status_code", 0) == _TOO_MANY_REQUESTS:
            raise HubFailed(
                "the hub was asked too often; wait a few minutes, or sign in with “hf auth login”"
            ) from error
        raise HubFailed(f"the hub refused: {_status(error)}; try again later") from error
    except ValueError as error:
        raise HubFailed("the hub's answer cannot be read; try again later") from error
    except Exception as error:
        if not isinstance(error, OSError) and not is_of_network(error):
            raise
        if type(error).__name__.endswith("Timeout"):
            raise HubFailed("the hub did not answer in time; try again later") from error
        raise HubFailed(
            f"the hub cannot be reached ({network_cause(error)}); check the connection to the "
            "internet"
        ) from error


@contextmanager
def failures_in_words(repository: str, cache: Path) -> Iterator[None]:
    """Turn the errors of a download inside the block into ``DownloadFailed``."""
    from huggingface_hub import errors

    try:
        yield
    except HubCancelled as error:
        raise DownloadCancelled from error
    except HubFailed as error:
        raise DownloadFailed(str(error)) from error
    except EngineError as error:
        if isinstance(error, ModelLoadFailed):
            raise DownloadFailed(f"{repository} was downloaded, but {error}") from error
        raise
    except Damaged as damage:
        raise DownloadFailed(f"{damage}; it was removed: download it again") from damage
    except errors.GatedRepoError as error:
        raise DownloadFailed(_gated(repository)) from error
    except errors.RepositoryNotFoundError as error:
        raise DownloadFailed(_not_found(repository)) from error
    except errors.HfHubHTTPError as error:
        raise DownloadFailed(f"the hub refused: {_status(error)}; try again later") from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            free = size_in_words(shutil.disk_usage(cache).free)
            raise DownloadFailed(
                f"the disk is full ({free} free at {cache}); the partial download is kept: make "
                "room and resume"
            ) from error
        if error.filename is not None:
            raise DownloadFailed(
                f"{error.filename} cannot be written: {os_cause(error)}"
            ) from error
        raise DownloadFailed(_broken(error)) from error
    except Exception as error:
        if not is_of_network(error):
            raise
        raise DownloadFailed(_broken(error)) from error


def _gated(repository: str) -> str:
    return (
        f"{repository} is gated: accept its terms on its page at huggingface.co, then sign in "
        "with “hf auth login”, or set HF_TOKEN"
    )


def _not_found(repository: str) -> str:
    return f"there is no repository {repository}; a private one needs “hf auth login” or HF_TOKEN"


def _broken(error: Exception) -> str:
    return (
        f"the connection broke: {network_cause(error)}. The partial download is kept: resume later"
    )


def _status(error: Any) -> str:
    response = getattr(error, "response", None)
    if response is None:
        return "it gave no reason"
    return f"{response.status_code} {response.reason_phrase}".strip()
