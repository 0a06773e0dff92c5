"""A model's chat template: its options, and the prompt that it makes of a conversation."""

import contextlib
import functools
import itertools
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jinja2
from jinja2 import meta
from jinja2.ext import loopcontrols

from engine.conversation.bounded_jinja import BoundedEnvironment, rendering_limited
from engine.conversation.normalization import arrange, normalize
from engine.conversation.template_rules import SAMPLE_TOOL, TemplateRules, learn_rules
from engine.errors import InvalidRequest
from engine.files.causes import without_folders
from engine.grammar.schemas import MAX_LEVELS
from engine.output.tool_calls.call_text import is_deeper
from engine.output.tool_calls.formats import CALL_FORMATS
from engine.values.request import Effort, GenerationRequest, Message, Tool

# Options of transformers' ``apply_chat_template`` that are no variables of the template.
RESERVED_OPTIONS = frozenset(
    {"add_generation_prompt", "chat_template", "continue_final_message", "conversation",
     "conversations", "max_length", "messages", "padding", "return_assistant_tokens_mask",
     "return_dict", "return_tensors", "sanitize_control_tokens", "self", "tokenize",
     "tokenizer_kwargs", "tools", "truncation"}
)  # fmt: skip
# Template options that a request has fields for; ``enable_thinking`` has two spellings.
_THINKING = ("enable_thinking", "thinking")
_EFFORT = "reasoning_effort"
_OWN_OPTIONS = frozenset({*_THINKING, _EFFORT, "thinking_budget"})
_FIELD = "chat_template_kwargs"
_SCALE = tuple(effort.value for effort in Effort)
# The words that gpt-oss documents, for a template that writes any word into the prompt.
_FREE_FORM_EFFORTS = ("low", "medium", "high")
_EFFORT_PROBE = "effortprobe"
# Marks an answer for training; transformers adds this tag to Jinja's own.
_GENERATION_TAG = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")

# Keys in which templates read the thinking of an earlier answer.
_THINKING_KEYS = ("reasoning_content", "thinking", "reasoning")
# Special tokens as texts of most families: gpt-oss refuses answers that contain some of them.
_SPECIAL_TOKEN = re.compile(r"<(?=\|\w+\|>)")

Apply = Callable[..., str | list[int]]
"""Applies a template to messages, with ``has_null_content`` and options by name.

Returns text, or ids where a tokenizer makes them itself and ``tokenize`` is not False.
``has_null_content`` makes the content of a call without text None.
"""


class ChatTemplate:
    """The chat template of one model. Any thread."""

    def __init__(
        self, apply: Apply, sources: Sequence[str], call_marks: tuple[str, str] = ("", "")
    ) -> None:
        self._apply = apply
        self._source = "".join(sources)
        self._call_marks = call_marks
        self._rules: dict[bool, TemplateRules] = {}
        self._learning = threading.Lock()

    @functools.cached_property
    def variables(self) -> frozenset[str]:
        """The variables that it reads, and some that it sets itself; none for invalid Jinja."""
        environment = BoundedEnvironment(extensions=[loopcontrols])
        try:
            tree = environment.parse(_GENERATION_TAG.sub("", self._source))
            return frozenset(meta.find_undeclared_variables(tree))
        except (
            jinja2.TemplateSyntaxError,
            RecursionError,
            ValueError,
        ):  # too deep, too many digits
            return frozenset()

    @functools.cached_property
    def effort_names(self) -> tuple[str, ...]:
        """The words of the scale of efforts that it takes, ascending."""
        if _EFFORT not in self.variables:
            return ()
        if _EFFORT_PROBE in self._render_effort(_EFFORT_PROBE):
            return _FREE_FORM_EFFORTS
        named = set(re.findall(r"""['"](\w+)['"]""", self._source))
        return tuple(word for word in _SCALE if word in named and self._render_effort(word))

    def _takes_effort(self, word: str) -> bool:
        """Whether a request may name a word; one beside the scale is tried."""
        if word in _SCALE or _EFFORT not in self.variables:
            return word in self.effort_names
        return bool(self._render_effort(word))

    def _render_effort(self, word: str) -> str:
        """Return a prompt with a word for the effort; empty if the template refuses it."""
        options = {"add_generation_prompt": True, _EFFORT: word}
        options |= dict.fromkeys(_THINKING, True)
        messages = [{"role": "user", "content": "Hi"}]
        try:
            return str(self._apply(messages, has_null_content=False, tokenize=False, **options))
        except Exception:  # templates raise whatever their authors chose
            return ""

    @functools.cached_property
    def _thinking_keys(self) -> tuple[str, ...]:
        keys = [key for key in _THINKING_KEYS if key in self._source]
        return tuple(keys) or _THINKING_KEYS[:1]

    def spaces_around(self, tag: str) -> tuple[str, str]:
        """Return the white space that it writes before and after the end of reasoning.

        An earlier answer with reasoning shows it, or else a prompt that switches reasoning off.
        Both are empty where neither does.
        """
        question = {"role": "user", "content": "QUESTION"}
        answer = {"role": "assistant", "content": "ANSWER"}
        answer |= dict.fromkeys(self._thinking_keys, "REASONING")
        end = re.escape(tag)
        render = functools.partial(self._apply, has_null_content=False, tokenize=False)
        with contextlib.suppress(Exception):  # templates raise whatever their authors chose
            text = str(render([question, answer]))
            if match := re.search(rf"REASONING(\s*){end}(\s*)ANSWER", text):
                return match[1], match[2]
        with contextlib.suppress(Exception):
            text = str(render([question], add_generation_prompt=True, enable_thinking=False))
            if match := re.search(rf"(\s*){end}(\s*)$", text):
                # The reasoning is empty here, so the white space before the tag surrounds it on
                # both sides; only its first character counts.
                return match[1][:1], match[2]
        return "", ""

    def rules(self, *, has_tools: bool) -> TemplateRules:
        with self._learning, rendering_limited():
            if has_tools not in self._rules:
                tools = [SAMPLE_TOOL] if has_tools else None

                def render(messages: Sequence[Message], rules: TemplateRules) -> str:
                    options = {"tools": tools, "add_generation_prompt": True, "tokenize": False}
                    return str(self._apply_by(rules, messages, options))

                self._rules[has_tools] = learn_rules(
                    render, is_code=not self._source, has_tools=has_tools
                )
            return self._rules[has_tools]

    def _apply_with_pinned_tools(
        self, rules: TemplateRules, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> str | list[int]:
        """Return a prompt whose list of tools stands before the first user turn.

        The list is what the template adds for tools to the conversation up to that turn.
        """
        rules = replace(rules, moves_tools=False)
        end = next((n for n, each in enumerate(messages, 1) if each.role == "user"), len(messages))
        head = {**options, "add_generation_prompt": False, "continue_final_message": False}
        bare = {**head, "tools": None}
        listed, unlisted = (
            str(self._apply_by(rules, messages[:end], kind)) for kind in (head, bare)
        )
        pairs = enumerate(zip(listed, unlisted, strict=False))
        start = next((n for n, (one, other) in pairs if one != other), len(unlisted))
        tools = listed[start : start + len(listed) - len(unlisted)]
        text = self._apply_by(rules, messages, {**options, "tools": None})
        is_inserted = unlisted[:start] + tools + unlisted[start:] == listed
        if not is_inserted or not isinstance(text, str) or text[:start] != unlisted[:start]:
            return self._apply_by(rules, messages, options)
        return text[:start] + tools + text[start:]

    def _apply_by(
        self, rules: TemplateRules, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> str | list[int]:
        if rules.moves_tools and options["tools"]:
            return self._apply_with_pinned_tools(rules, messages, options)
        turns = normalize(
            messages,
            rules,
            call_marks=self._call_marks,
            thinking_keys=self._thinking_keys,
            is_continued=bool(options.get("continue_final_message")),
        )
        return self._apply(turns, has_null_content=rules.has_null_content, **options)

    def render(
        self, request: GenerationRequest, model: str
    ) -> tuple[str | list[int], tuple[str, ...]]:
        """Return a request's prompt, and its options without effect; raises ``InvalidRequest``."""
        options = self._options(request)
        try:
            text = self._render(request, options)
        except InvalidRequest:
            raise
        except RecursionError as error:
            deep = [tool.name for tool in request.tools if is_deeper(tool.parameters, MAX_LEVELS)]
            field = f"tools.{deep[0]}.parameters" if deep else "messages"
            reason = "nested too deeply for the model's chat template"
            raise InvalidRequest(field, reason) from error
        except Exception as error:
            field, reason = self._failing_field(request, options), _reason_of(error, model)
            raise InvalidRequest(field, reason) from error
        return text, self._unknown_options(request)

    def picture_order(self, request: GenerationRequest) -> list[int]:
        """Return the indices of a request's pictures in the order of its prompt."""
        numbers = itertools.count()
        numbered = [
            replace(
                message,
                pictures=tuple(
                    replace(picture, data=b"", field=str(next(numbers)))
                    for picture in message.pictures
                ),
            )
            for message in request.messages
        ]
        rules = self.rules(has_tools=self._options(request)["tools"] is not None)
        turns = arrange(numbered, rules, self._call_marks)
        return [int(picture.field) for turn in turns for picture in turn.pictures]

    def render_by(self, rules: TemplateRules, request: GenerationRequest) -> str | None:
        """Return the prompt of a conversation by given rules; None where the template fails."""
        try:
            return str(self._apply_by(rules, request.messages, self._options(request)))
        except Exception:  # templates raise whatever their authors chose
            return None

    def _render(self, request: GenerationRequest, options: Mapping[str, Any]) -> str | list[int]:
        rules = self.rules(has_tools=options["tools"] is not None)
        try:
            text = self._apply_by(rules, request.messages, options)
        except Exception:
            messages = [_without_special_tokens(message) for message in request.messages]
            if messages == list(request.messages):
                raise
            text = self._apply_by(rules, messages, options)
        if not isinstance(text, str):
            return list(text)
        if not request.continues_message:
            return text
        return _with_trailing_space(text, request.messages[-1].content)

    def _options(self, request: GenerationRequest) -> dict[str, Any]:
        for name in request.template_options:
            if name in RESERVED_OPTIONS:
                raise InvalidRequest(
                    f"{_FIELD}.{name}",
                    "is set by the server, and cannot be an option; leave it out",
                )
        offered = [tool_dict(tool) for tool in request.tools if not tool.is_deferred]
        options: dict[str, Any] = {
            "tools": offered or None,
            "add_generation_prompt": request.opens_answer and not request.continues_message,
            "continue_final_message": request.continues_message,
        }
        if (thinking := _switches_thinking(request)) is not None:
            options["enable_thinking"] = thinking
            if "thinking" in self.variables:
                options["thinking"] = thinking
        if (effort := self.effort_of(request)) is not None:
            options[_EFFORT] = effort
        if request.thinking_budget is not None and "thinking_budget" in self.variables:
            options["thinking_budget"] = request.thinking_budget
        if request.tools and "preserve_thinking" in self.variables:
            # An agent's earlier reasoning stays, and with it the prefix of its next prompt.
            options["preserve_thinking"] = True
        given = request.template_options.items()
        return {**options, **{name: value for name, value in given if name not in _OWN_OPTIONS}}

    def effort_of(self, request: GenerationRequest) -> str | None:
        """Return its word for the effort of a request; None where it has none or none is needed."""
        word = request.template_options.get(_EFFORT)
        if isinstance(word, str) and self._takes_effort(word):
            return word
        # A template that knows efforts may have no other option that turns reasoning down.
        effort = Effort.NONE if _switches_thinking(request) is False else request.effort
        return None if effort is None else _nearest_effort(self.effort_names, effort)

    @property
    def knows_thinking(self) -> bool:
        if not self._source or self.effort_names:  # code takes an option or fails
            return True
        return any(name in self.variables for name in _THINKING)

    def _unknown_options(self, request: GenerationRequest) -> tuple[str, ...]:
        if not self._source:  # code takes an option or fails
            return ()
        # The engine itself enforces a budget, and an effort of which it makes one.
        enforced = ["thinking_budget", *([] if request.effort is None else [_EFFORT])]
        return tuple(
            f"{_FIELD}.{name}"
            for name in request.template_options
            if name not in (*self.variables, *enforced)
            and not (name in _THINKING and self.knows_thinking)
        )

    def _failing_field(self, request: GenerationRequest, options: Mapping[str, Any]) -> str:
        """Return the template option without which a request can be rendered, or ``messages``."""
        for name in request.template_options:
            if name not in options or name not in self.variables:
                continue  # it has no effect, and a client may send many of those
            rest = {key: value for key, value in options.items() if key != name}
            try:
                self._render(request, rest)
            except Exception:
                continue
            return f"{_FIELD}.{name}"
        return "messages"


def _switches_thinking(request: GenerationRequest) -> bool | None:
    # A model whose prompt leaves reasoning to it, and which must not begin any, is lost.
    return False if request.thinking_budget == 0 else request.thinking


def tool_dict(tool: Tool) -> dict[str, Any]:
    """Return a tool in the form that templates and parsers expect."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }


def _nearest_effort(names: Sequence[str], effort: Effort) -> str | None:
    """Return the word of a template that is nearest to a wish, the higher one of two.

    None if the template names no degree of reasoning.
    """
    if effort.value in names:
        return effort.value
    # No wish for reasoning is mapped to the word that switches it off.
    candidates = [word for word in names if word != Effort.NONE.value]
    position = _SCALE.index(effort.value)
    return min(
        candidates,
        key=lambda word: (abs(_SCALE.index(word) - position), -_SCALE.index(word)),
        default=None,
    )


def _without_special_tokens(message: Message) -> Message:
    """Return an answer in which the texts of special tokens are broken by a space."""
    if message.role != "assistant":
        return message
    content, thinking = (
        _SPECIAL_TOKEN.sub("< ", text) for text in (message.content, message.thinking)
    )
    return replace(message, content=content, thinking=thinking)


def _reason_of(error: Exception, model: str) -> str:
    # ``raise_exception`` of a template raises this class itself, with words for its users.
    if type(error) is jinja2.TemplateError:
        return f"the model's chat template refused: {str(error)[:200]}"
    why = " ".join(without_folders(str(error)).split())[:200]
    return f"the chat template of {model} failed: {why or type(error).__name__}"


def _with_trailing_space(text: str, begun: str) -> str:
    """Return a prompt that ends as the begun answer does: many templates trim its white space."""
    beginning = begun.strip()
    if not beginning or text.endswith(begun) or not text.rstrip().endswith(beginning):
        return text
    return text.rstrip() + begun[len(begun.rstrip()) :]


def _describe_tools(tools: Sequence[Tool], name: str | None, call_style: str) -> str:
    for tool in tools:
        if is_deeper(tool.parameters, MAX_LEVELS):
            raise InvalidRequest(f"tools.{tool.name}.parameters", "nested too deeply")
    call_format = CALL_FORMATS.get(call_style)
    example = (
        f", in this form:{call_format.example}"
        if call_format is not None and call_format.example
        else "."
    )
    subject = "one of these functions" if name is None else "this function"
    described = [tool_dict(tool)["function"] for tool in tools if name in (None, tool.name)]
    return "\n".join(
        [
            f"Answer with a call of {subject} and nothing else{example}",
            "",
            "The functions, each with the JSON schema of its arguments:",
            *(json.dumps(tool, ensure_ascii=False) for tool in described),
        ]
    )


def with_described_tools(request: GenerationRequest, call_style: str) -> GenerationRequest:
    """Return a request whose first message tells of its tools; one with a prompt stays as it is."""
    if request.prompt is not None:
        return request
    instruction = _describe_tools(request.tools, request.tool_choice.name, call_style)
    messages = request.messages
    if messages and messages[0].role == "system":
        first = replace(messages[0], content=f"{messages[0].content}\n\n{instruction}")
        return replace(request, messages=(first, *messages[1:]), tools=())
    return replace(request, messages=(Message("system", instruction), *messages), tools=())
