"""Converts a tool server's answers to text for the model and the person, within a limit. Pure."""

import base64
import binascii
import json
from typing import Any

from engine import size_in_words


def text_of_result(result: Any, most_bytes: int) -> str:
    """Return the text of a call's result.

    What is not text (pictures, sound, other files) is named with its kind and size.
    """
    parts = [_block(one) for one in result.content[:1_000]]
    if not any(part.strip() for part in parts) and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return shortened("\n".join(parts), most_bytes) or "(no output)"


def text_of_resource(result: Any, most_bytes: int) -> str:
    """Return the text of a resource."""
    return shortened("\n".join(_contents(one) for one in result.contents[:1_000]), most_bytes)


def only_unreadable(result: Any) -> str:
    """Return what something is that was read and has no text at all; empty where it has some."""
    contents = result.contents[:1_000]
    if not contents or any(getattr(one, "text", None) is not None for one in contents):
        return ""
    return f"{contents[0].mime_type or 'binary data'}, {_size(contents[0].blob)}"


def text_of_prompt(result: Any, most_bytes: int) -> str:
    """Return a server's prompt as one text."""
    messages = result.messages[:200]
    texts = [_block(one.content) for one in messages]
    if len({one.role for one in messages}) > 1:
        texts = [
            f"{'Me' if one.role == 'user' else 'You'}: {text}"
            for one, text in zip(messages, texts, strict=True)
        ]
    return shortened("\n\n".join(texts), most_bytes)


def shortened(text: str, most_bytes: int) -> str:
    """Return a text of at most this many bytes; a note at its end tells what was cut off."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most_bytes:
        return data.decode()
    kept = data[:most_bytes].decode("utf-8", "ignore")
    return (
        f"{kept}\n[Cut: this is the first {size_in_words(most_bytes)} of "
        f"{size_in_words(len(data))}.]"
    )


def _block(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return f"[{block.type} {block.mime_type}, {_size(block.data)}; it cannot be shown here]"
        case "resource":
            return _contents(block.resource)
        case "resource_link":
            return f"[resource {block.uri}: {block.title or block.name}]"
        case other:
            return f"[{other}; it cannot be shown here]"


def _contents(contents: Any) -> str:
    text = getattr(contents, "text", None)
    if text is not None:
        return str(text)
    kind = contents.mime_type or "binary data"
    return f"[{kind}, {_size(contents.blob)}; it cannot be shown here]"


def _size(data: str) -> str:
    try:
        return size_in_words(len(base64.b64decode(data, validate=False)))
    except (binascii.Error, ValueError):
        return size_in_words(len(data))
