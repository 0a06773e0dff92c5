"""Renders images, documents and search results as text of the prompt. Pure, no web framework."""

import base64
import binascii
from typing import Any

from api.dialects.anthropic.wire import DocumentBlock, ImageBlock, SearchResultBlock
from api.dialects.shared.parameters.images import note_of
from api.transport.errors import FieldPath, invalid


class BlockReader:
    """Reads the blocks of one conversation that are not plain text."""

    def __init__(self, *, has_notes: bool) -> None:
        self._has_notes = has_notes

    def text_of(
        self, block: ImageBlock | DocumentBlock | SearchResultBlock, path: FieldPath
    ) -> str:
        """Return the text of a block in the prompt: its own text, or a note."""
        if isinstance(block, SearchResultBlock):
            text = "\n".join(part.text for part in block.content)
            return f"Search result: {block.title} ({block.source})\n{text}"
        if isinstance(block, DocumentBlock):
            return _with_heading(block, self._document_text(block, path))
        return self._note(block, path)

    def _document_text(self, block: DocumentBlock, path: FieldPath) -> str:
        source = block.source if isinstance(block.source, dict) else {}
        kind, place = source.get("type"), (*path, "source")
        if kind == "text":
            data = source.get("data")
            if not isinstance(data, str):
                raise invalid((*place, "data"), "must be text")
            return data
        if kind == "content":
            return self._content_text(source.get("content"), (*place, "content"))
        if kind == "base64" and str(source.get("media_type", "")).startswith("text/"):
            return _decoded(source.get("data"), (*place, "data"))
        return self._note(block, path)

    def _content_text(self, content: Any, path: FieldPath) -> str:
        """Return the text of a document that consists of blocks of text and images."""
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise invalid(path, "must be text or a list of blocks")
        texts = []
        for index, one in enumerate(content):
            part = one if isinstance(one, dict) else {}
            if part.get("type") == "text" and isinstance(part.get("text"), str):
                texts.append(part["text"])
            elif part.get("type") == "image":
                image = ImageBlock(type="image", source=part.get("source"))
                texts.append(self._note(image, (*path, index)))
            else:
                raise invalid((*path, index), "must be a block of text or an image")
        return "\n".join(texts)

    def _note(self, block: ImageBlock | DocumentBlock, path: FieldPath) -> str:
        kind = block.source.get("media_type") if isinstance(block.source, dict) else None
        return note_of(path, kind, is_allowed=self._has_notes, what=block.type)


def _with_heading(block: DocumentBlock, text: str) -> str:
    """Return a document's text below its title and the client's description of it."""
    heading = [f"Document: {block.title}"] if block.title else []
    return "\n".join([*heading, *([block.context] if block.context else []), text])


def _decoded(data: object, path: FieldPath) -> str:
    try:
        return base64.b64decode(data if isinstance(data, str) else "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise invalid(path, "must be text in UTF-8, encoded as base64") from None
