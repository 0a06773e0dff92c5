"""The only module that uses parts of huggingface_hub that are not its public interface.

Each is a workaround, checked with huggingface-hub 2.4.0, whose source is at
https://github.com/huggingface/huggingface_hub/tree/v2.4.0/src/huggingface_hub.
``tests/conventions/test_private_parts.py`` fails, and names the part, when one changes.
huggingface_hub is imported when it is first used, because that takes half a second. Any thread.
"""

from typing import Any, BinaryIO


def set_chunk_bytes(count: int) -> None:
    """Set how many bytes a transfer reads between two reports of progress.

    It is 10 MB otherwise, so that a slow connection seems to stand still, and a broken one loses
    that much. There is no option for it:
    https://github.com/huggingface/huggingface_hub/pull/4217
    Upstream: ``DOWNLOAD_CHUNK_SIZE`` in ``constants.py``, read by ``http_get``.
    """
    import huggingface_hub.constants

    huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE = count


def request_headers() -> dict[str, str]:
    """Return the headers of a request to the hub, with the person's token if there is one.

    Upstream: ``build_hf_headers`` in ``utils/_headers.py``.
    """
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    headers: dict[str, str] = build_hf_headers()
    return headers


def progress_bar_class() -> type[Any]:
    """Return the class of the progress bars that a transfer reports to.

    Upstream: ``tqdm`` in ``utils/tqdm.py``; a transfer makes one with ``initial``, and calls
    ``update`` for each chunk.
    """
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    bar: type[Any] = tqdm
    return bar


def transfer(
    url: str,
    file: BinaryIO,
    headers: dict[str, str],
    *,
    name: str,
    size: int | None,
    tqdm_class: type[Any],
) -> None:
    """Append the missing part of a file to it.

    The public functions begin a broken download again from its first byte:
    https://github.com/huggingface/huggingface_hub/issues/4196
    Upstream: ``http_get`` in ``file_download.py``.

    Args:
        url: The address of the content.
        file: Open for appending, positioned behind the part that exists.
        headers: Of the request.
        name: The file's name in messages.
        size: Its bytes when it is complete; None where that is not known.
        tqdm_class: Progress bar; counts the bytes that arrive, those that exist as ``initial``.

    Raises:
        OSError: It cannot be written, or the connection broke too often.
        huggingface_hub.errors.HfHubHTTPError: The hub refused.
    """
    from huggingface_hub.file_download import http_get

    http_get(
        url,
        file,
        resume_size=file.tell(),
        headers=headers,
        expected_size=size,
        displayed_filename=name,
        tqdm_class=tqdm_class,
    )
