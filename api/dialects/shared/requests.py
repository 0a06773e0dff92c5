"""Reads the contents and tools of requests, and the generations that they ask for.

Pure; any thread, any process.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from api.dialects.shared.billing_line import without_billing_line
from api.dialects.shared.parameters import ReadContext
from api.dialects.shared.parsing import WireModel
from api.service.errors import (
    ApiError,
    FieldPath,
    invalid,
    path_text,
    required,
    unseen,
    unsupported,
)
from engine.values.request import PICTURE_MARK, GenerationRequest, Picture, Tool

# Converts a request's body to generations, none if it has no prompt; raises ``ApiError`` where the
# dialect refuses it, ``InvalidRequest`` where the engine would.
ReadRequest = Callable[[Any, ReadContext], Sequence[GenerationRequest]]
_REASONING_KEYS = ("text", "thinking", "reasoning", "summary", "content")
# Only a well-formed media type is put into the prompt.
_MEDIA_TYPE = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}")
# Requests that offer one of these tools depend on it, but no model here can call it, or nothing
# here can run it. Dated names (``bash_20250124``) begin with one of them.
_REFUSED = re.compile(
    r"(apply_patch|bash|code_execution|code_interpreter|computer|custom|file_search|local_shell|mcp"
    r"|memory|shell|str_replace|text_editor)(_|\Z)"
)
# Anything else a client could write is not repeated in a header.
_KIND = re.compile(r"[a-z0-9_.-]{1,64}")


def read_generations(
    params: WireModel,
    context: ReadContext,
    read: ReadRequest,
    not_applied: tuple[str, ...] = (),
) -> list[GenerationRequest]:
    """Return the generations that a body asks for, with the names of its fields without effect.

    Raises:
        ApiError: The dialect refuses it.
        InvalidRequest: The engine would refuse it.
    """
    try:
        requests = [without_billing_line(request) for request in read(params, context)]
    except RecursionError:
        raise invalid((), "the body is nested too deeply") from None
    return [
        replace(request, not_applied=(*not_applied, *request.not_applied)) for request in requests
    ]


def text_or(parts: Any, *, accepts_null: bool = False, part_type: str = "text") -> BeforeValidator:
    """Return the validator for ``Annotated[parts, …]`` that also accepts a text, and null."""

    def read(value: Any) -> Any:
        if isinstance(value, str):
            return [{"type": part_type, "text": value}]
        if value is None and accepts_null:
            return []
        if isinstance(value, list):
            return value
        raise PydanticCustomError("content_type", "must be a string or a list of content parts")

    accepted = str | parts | None if accepts_null else str | parts
    return BeforeValidator(read, json_schema_input_type=accepted)


class TextPart(WireModel):
    """Text; Responses has its own names, which vLLM also accepts in Chat Completions."""

    type: Literal["text", "input_text", "output_text"]
    text: str


def reasoning_text(*given: object) -> str:
    """Return the first text among several forms of the same reasoning.

    Each is a text, an object with a text, or a list of these, as vendors return their reasoning.
    """
    return next(filter(None, map(_flat_text, given)), "")


def _flat_text(value: object) -> str:
    match value:
        case str():
            return value
        case list():
            return "".join(map(_flat_text, value))
        case dict():
            return reasoning_text(*(value.get(name) for name in _REASONING_KEYS))
        case _:
            return ""


class Content:
    """The text of a turn as it is read from parts, with the pictures among them."""

    def __init__(self, separator: str = "\n") -> None:
        self.pictures: list[Picture] = []
        self._separator = separator
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, text: str) -> None:
        """Add a part of text, behind the separator unless a picture comes before it."""
        if self._pieces and self._pieces[-1] != PICTURE_MARK:
            self._pieces.append(self._separator)
        # A code point that no text contains marks the pictures.
        self._pieces.append(text.replace(PICTURE_MARK, ""))

    def add_picture(self, picture: Picture) -> None:
        self.pictures.append(picture)
        self._pieces.append(PICTURE_MARK)

    def add_media(
        self,
        source: object,
        path: FieldPath,
        *,
        has_note: bool,
        media_type: object = None,
        what: str = "image",
        is_small: bool = False,
        title: object = None,
    ) -> None:
        """Add an image or a document of text, as a data URL or in base64, or the note in its place.

        Other media are not read, nor an image at an address: no request goes out from here.
        """
        kind = media_type_of(source) or media_type
        what = "image" if str(kind).startswith("image/") else what
        text = source if isinstance(source, str) else ""
        is_address = ":" in text[:8] and not text.startswith("data:")
        if what == "document" and isinstance(title, str) and title:
            self.add(f"Document: {title}")
        if what == "document" and text and is_text_type(kind):
            self.add(decode_text(text.partition(",")[2] or text, path))
            return
        if what != "image":
            self.add(note_of(path, kind, is_allowed=has_note, what=what))
            return
        if is_address or not text:
            reason = "at an address is not fetched" if is_address else "without data cannot be read"
            if not has_note:
                raise unseen(path, f"an image {reason}: send its data in base64")
            self.add(note_of(path, kind, is_allowed=True, reason=f"an image {reason}"))
            return
        try:
            encoded = (text.partition(",")[2] or text).encode("ascii", "replace")
            # Some clients break its lines.
            data = base64.b64decode(encoded.translate(None, b" \t\r\n"), validate=True)
        except (binascii.Error, ValueError):
            raise invalid(path, "must be an image in base64") from None
        note = note_of(path, kind, is_allowed=True) if has_note else ""
        self.add_picture(Picture(data, is_small, path_text(path), note))


def note_of(
    path: FieldPath,
    media_type: object,
    *,
    is_allowed: bool,
    what: str = "image",
    reason: str = "",
) -> str:
    """Return the note that replaces an image, or the like, in the prompt."""
    is_image = what == "image"
    if not is_allowed:
        unread = f"this server reads text and images, and cannot read this {what}: send its text"
        unseen_image = "this model reads text only and cannot see this image"
        raise unseen(path, unseen_image if is_image else unread)
    known = isinstance(media_type, str) and _MEDIA_TYPE.fullmatch(media_type)
    kind = f" ({media_type})" if known else ""
    reason = reason or ("this model reads text only" if is_image else "its text was not sent")
    return f"[{what.capitalize()} not shown{kind}: {reason}.]"


def is_text_type(media_type: object) -> bool:
    """Return whether a document of this media type is text."""
    return str(media_type).startswith(("text/", "application/json", "application/xml"))


def decode_text(data: object, path: FieldPath) -> str:
    """Return the text of a document that is sent in base64."""
    try:
        return base64.b64decode(data if isinstance(data, str) else "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise invalid(path, "must be text in UTF-8, encoded as base64") from None


def media_type_of(url: object) -> str | None:
    """Return the media type of an image in a data URL."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    return url[5:64].partition(",")[0].partition(";")[0]


# The client's functions are offered; others are refused or left out, which a header then says.
class FunctionParam(WireModel):
    """A function that the client runs, as Chat Completions and Ollama describe it."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None


def tool_from_wire(function: FunctionParam) -> Tool:
    """Return a function as the engine knows it."""
    return Tool(function.name, function.description or "", function.parameters or {})


def function_of(kind: str | None, function: FunctionParam | None, path: FieldPath) -> Tool | None:
    """Return the function of a tool, or None for another kind of tool that is left out."""
    if kind and kind != "function":
        check_left_out(kind, path)
        return None
    if function is None:
        raise required((*path, "function"))
    return tool_from_wire(function)


def check_left_out(kind: str, path: FieldPath) -> None:
    """Refuse a tool that must not be left out of a request.

    Tools that clients offer in every request (``web_search``), and unknown tools, are left out;
    the model then answers without them.
    """
    if _REFUSED.match(kind):
        raise unsupported((*path, "type"), f"the tool {kind}")


def left_out_tools(params: object) -> tuple[str, ...]:
    """Return the types of the tools that a request was read without, each once."""
    tools = getattr(params, "all_tools", None) or getattr(params, "tools", None)
    left_out = dict.fromkeys(_kinds_left_out(tools))
    return tuple(kind if _KIND.fullmatch(kind) else "unknown" for kind in left_out)


def no_tool_to_call(params: object) -> ApiError:
    """Return the error for a required call without a tool that could be called."""
    names = ", ".join(left_out_tools(params))
    reason = f"this server does not run {names}" if names else "no tool can be called"
    return invalid(("tool_choice",), f"requires a call, but {reason}")


def _kinds_left_out(tools: Any) -> Iterator[str]:
    for tool in tools or ():
        # Tools to refuse that were not refused are functions of the client.
        if tool.type and tool.type not in tool.function_types and not _REFUSED.match(tool.type):
            yield tool.type
        yield from _kinds_left_out(getattr(tool, "tools", None))
