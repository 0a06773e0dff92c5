"""Prompts of a chat template before a model has it: only the names of its tokens are read.

Any thread that may be held up for some seconds.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import jinja2

from engine.conversation.bounded_jinja import rendering_limited
from engine.conversation.template import ChatTemplate
from engine.conversation.template_check import TemplateReport, check_template
from engine.errors import InvalidRequest, InvalidTemplate
from engine.files.causes import without_folders
from engine.inference.loader import importing_mlx_lm
from engine.inference.text import chat_template
from engine.inference.transformers_internals import bound_templates
from engine.library.template_files import special_tokens
from engine.values.request import GenerationRequest, Message, Tool, ToolCall

_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_CALL = ToolCall("call_1", "get_weather", '{"city": "Lisbon"}')
SAMPLE_REQUEST = GenerationRequest(
    messages=(
        Message("system", "You are a helpful assistant."),
        Message("user", "What is the weather in Lisbon?"),
        Message("assistant", "", thinking="I need the weather.", tool_calls=(_CALL,)),
        Message("tool", '{"sky": "clear", "degrees": 21}', tool_call_id=_CALL.id),
        Message("assistant", "It is clear, with 21 degrees.", thinking="Clear and warm."),
        Message("user", "And what should I wear?"),
    ),
    tools=(Tool("get_weather", "Returns the weather of a city.", _CITY),),
)
"""A conversation with each kind of message."""
_QUESTION = GenerationRequest(messages=(Message("user", "QUESTION"),))


@dataclass(frozen=True, slots=True)
class TemplatePreview:
    """The prompt of a conversation, or why there is none."""

    prompt: str
    problem: InvalidTemplate | None = None


def preview_template(folder: Path, source: str, request: GenerationRequest) -> TemplatePreview:
    """Return the prompt that a template makes of a request for the model of a folder."""
    try:
        return TemplatePreview(_render(_template(folder, source), request))
    except InvalidTemplate as problem:
        return TemplatePreview("", problem)


def validate_template(folder: Path, source: str) -> TemplateReport:
    """Return what a template takes; raises ``InvalidTemplate`` if it fails with a question.

    All conversations together may take as long as one prompt.
    """
    if not source.strip():
        raise InvalidTemplate("it is empty")
    template = _template(folder, source)
    with rendering_limited():
        if _QUESTION.messages[0].content not in _render(template, _QUESTION):
            raise InvalidTemplate("the user’s message is not in the prompt that it makes")
        return check_template(template)


def _template(folder: Path, source: str) -> ChatTemplate:
    with importing_mlx_lm():
        base: Any = import_module("transformers.tokenization_utils_base").PreTrainedTokenizerBase
        bound_templates()
    tokenizer = base(chat_template=source, **special_tokens(folder))
    return chat_template(SimpleNamespace(_tokenizer=tokenizer, _chat_template=None))


def _render(template: ChatTemplate, request: GenerationRequest) -> str:
    try:
        return str(template.render(request, "the model")[0])
    except InvalidRequest as refusal:
        cause = refusal.__cause__
        if cause is None:
            raise InvalidTemplate(refusal.reason) from refusal
        raise InvalidTemplate(_reason_of(cause), _line_of(cause)) from cause


def _reason_of(error: BaseException) -> str:
    text = " ".join(without_folders(str(error)).split())[:200] or type(error).__name__
    # ``raise_exception`` of a template raises this class itself.
    return f"it refuses this conversation: {text}" if type(error) is jinja2.TemplateError else text


def _line_of(error: BaseException) -> int | None:
    """Return the line of a template at which it failed; Jinja puts its lines into tracebacks."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.lineno
    line: int | None = None
    step: TracebackType | None = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = step.tb_lineno
        step = step.tb_next
    return line
