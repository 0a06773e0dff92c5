"""The only module that uses parts of huggingface_hub that are not its public interface.

Each is a workaround, checked with huggingface-hub 2.4.0, whose source is at
https://github.com/huggingface/huggingface_hub/tree/v2.4.0/src/huggingface_hub.
``tests/conventions/test_private_parts.py`` fails, and names the part, when one changes.
huggingface_hub is imported when it is first used, because that takes half a second. Any thread.
"""


def request_headers() -> dict[str, str]:
    """Return a request's headers. Upstream: ``build_hf_headers`` in ``utils/_headers.py``."""
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    headers: dict[str, str] = build_hf_headers()
    return headers
