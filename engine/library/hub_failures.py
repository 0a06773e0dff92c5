"""Says in words why a download failed, whatever huggingface_hub and the network raised.

Any thread. huggingface_hub is imported when a download begins.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import EngineError, ModelLoadFailed
from engine.library.download_progress import DownloadFailed
from engine.library.verifying import Damaged
from engine.wording import size_in_words


@contextmanager
def failures_in_words(repository: str, cache: Path) -> Iterator[None]:
    """Turn what a download raises inside of the block into ``DownloadFailed``."""
    from huggingface_hub import errors

    try:
        yield
    except EngineError as error:
        if isinstance(error, ModelLoadFailed):
            raise DownloadFailed(f"{repository} was downloaded, but {error}") from error
        raise
    except Damaged as damage:
        raise DownloadFailed(f"{damage}; it was removed: download it again") from damage
    except errors.GatedRepoError as error:
        raise DownloadFailed(
            f"{repository} is gated: accept its terms on its page at huggingface.co, then sign in "
            "with “hf auth login”, or set HF_TOKEN"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise DownloadFailed(
            f"there is no repository {repository}; a private one needs “hf auth login” or HF_TOKEN"
        ) from error
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
            raise DownloadFailed(f"{error.filename} cannot be written: {error.strerror}") from error
        raise DownloadFailed(_broken(error)) from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in {"httpx", "httpx2", "httpcore", "requests"}:
            raise
        raise DownloadFailed(_broken(error)) from error


def _broken(error: Exception) -> str:
    cause = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"the connection broke: {cause.rstrip('.')}. The partial download is kept: resume later"


def _status(error: Any) -> str:
    response = getattr(error, "response", None)
    if response is None:
        return str(error).splitlines()[0]
    return f"{response.status_code} {response.reason_phrase}".strip()
