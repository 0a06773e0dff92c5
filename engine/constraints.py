"""Makes sure that an answer can be held to what a request asks of it, and compiles its grammar.

Knows no MLX and no batch. Engine thread. The library (llguidance) is imported, and the model's
vocabulary handed to it, by the first request that needs it.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from engine.channels import ChannelFormat
from engine.errors import InvalidRequest
from engine.grammars import (
    MOST_CHARACTERS,
    answer_grammar,
    answer_schema,
    arguments_schema,
    is_constrained,
    may_call,
    schema_grammar,
)
from engine.request import GenerationRequest
from engine.token_constraint import ConstraintTokens, Phase, TokenConstraint, in_words
from engine.vocabulary import Vocabulary

_CACHED_GRAMMARS = 64


class Constraints:
    """The grammars of one loaded model.

    Args:
        tokenizer: The Hugging Face tokenizer.
        vocabulary: Its token ids.
        channels: The tags that mark the channels of its output.
        call_style: mlx-lm's name of its tool calls, empty where it knows none.
    """

    def __init__(
        self, tokenizer: Any, vocabulary: Vocabulary, channels: ChannelFormat, call_style: str
    ) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._channels = channels
        self._style = call_style
        self._adapter: Any = None
        self._compiled: OrderedDict[str, Any] = OrderedDict()

    @cached_property
    def _tokens(self) -> ConstraintTokens:
        return ConstraintTokens(self._vocabulary, self._channels)

    def check(
        self, request: GenerationRequest, prompt: Sequence[int], *, thinks: bool
    ) -> ChannelFormat:
        """Make sure that an answer can be held to what is asked; return its channels' format.

        Tags that cannot occur in the answer are missing from it: what only looks like one, in
        a string of the JSON for instance, is text.

        Args:
            request: The request, constrained or not.
            prompt: Its token ids.
            thinks: Whether the prompt leaves reasoning open.

        Raises:
            InvalidRequest: It cannot; the message names the field and says what would do.
        """
        choice = request.tool_choice
        if choice.name is not None and choice.mode != "required":
            raise InvalidRequest("tool_choice", "a tool can be named only where one is required")
        if not is_constrained(request):
            return self._channels
        self._check_beginning(request)
        phase = self._first_phase(request, prompt, thinks)
        self._matcher(request)
        channels = self._channels
        if phase is not Phase.OPEN:
            channels = replace(channels, think_start=None)
        if not may_call(request):
            channels = replace(channels, tool_start=None, tool_end=None)
        return channels

    def hold(
        self, request: GenerationRequest, prompt: Sequence[int], *, thinks: bool
    ) -> TokenConstraint | None:
        """Return the constraint of a checked request's answer; None where it is free."""
        if not is_constrained(request):
            return None
        phase = self._first_phase(request, prompt, thinks)
        return TokenConstraint(self._matcher(request).deep_copy(), self._tokens, phase)

    def _check_beginning(self, request: GenerationRequest) -> None:
        field = _field(request)
        if not self._vocabulary.eos:
            raise InvalidRequest(field, "this model has no EOS token to end the answer with")
        if request.prompt is not None:
            if self._channels.harmony:
                raise InvalidRequest(field, "this model needs messages for it, not a raw prompt")
        elif request.messages and request.messages[-1].role == "assistant":
            raise InvalidRequest(
                field,
                "the last message is the assistant's, and what it began cannot be held to a "
                "form any more; end the messages with another role",
            )

    def _first_phase(
        self, request: GenerationRequest, prompt: Sequence[int], thinks: bool
    ) -> Phase:
        tokens, channels = self._tokens, self._channels
        if request.prompt is not None:
            return Phase.ANSWER
        if thinks:
            if tokens.closing is None:
                raise InvalidRequest("thinking", _LONG_TAG)
            return Phase.REASONING
        if request.thinking is False or channels.think_start is None or self._is_over(prompt):
            return Phase.ANSWER
        if tokens.opening is not None and tokens.closing is not None:
            return Phase.OPEN
        if request.thinking:
            raise InvalidRequest("thinking", _LONG_TAG)
        return Phase.ANSWER

    def _is_over(self, prompt: Sequence[int]) -> bool:
        """Say whether the prompt ends with reasoning that is closed already."""
        text = "".join(self._vocabulary.text_of(token_id) for token_id in prompt[-16:])
        tag = self._channels.think_end
        return bool(tag) and text.rstrip().endswith(str(tag))

    # -- grammars --------------------------------------------------------------------------

    def _matcher(self, request: GenerationRequest) -> Any:
        """Return the compiled grammar of a request; it is to be copied, not used."""
        self._connect(request)
        try:
            return self._compile(answer_grammar(request, self._channels, self._style))
        except ValueError as error:
            raise InvalidRequest(*self._culprit(request, str(error))) from error

    def _culprit(self, request: GenerationRequest, reason: str) -> tuple[str, str]:
        """Find the schema that does not compile; return its field and what is wrong with it."""
        schemas: list[tuple[str, Mapping[str, Any]]] = []
        if request.constraint is not None:
            schemas.append(("constraint.json_schema", answer_schema(request.constraint)))
        # By name: a dialect may have left tools of other kinds out.
        for tool in request.tools:
            schemas.append((f"tools.{tool.name}.parameters", arguments_schema(tool)))
        for field, schema in schemas:
            try:
                more = request.allows_more_keys
                self._compile(schema_grammar(schema, allows_more_keys=more))
            except ValueError as error:
                return field, str(error)
        return _field(request), reason

    def _compile(self, grammar: str) -> Any:
        matcher = self._compiled.get(grammar)
        if matcher is None:
            if len(grammar) > MOST_CHARACTERS:
                raise ValueError(f"longer than {MOST_CHARACTERS} characters, written as JSON")
            matcher = _new_matcher(self._adapter, grammar)
            self._compiled[grammar] = matcher
            if len(self._compiled) > _CACHED_GRAMMARS:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(grammar)
        return matcher

    def _connect(self, request: GenerationRequest) -> None:
        """Hand the vocabulary to the library, once."""
        if self._adapter is not None:
            return
        from llguidance.hf import from_tokenizer

        eos = sorted(self._vocabulary.eos)
        try:
            adapter = from_tokenizer(self._tokenizer, self._vocabulary.size, eos)
        except Exception as error:
            reason = f"this model's tokenizer cannot be held to a form: {error}"
            raise InvalidRequest(_field(request), reason) from error
        self._tokens.learn_specials(adapter.is_special_token)
        self._adapter = adapter


def _field(request: GenerationRequest) -> str:
    return "constraint" if request.tool_choice.mode != "required" else "tool_choice"


_LONG_TAG = (
    "this model marks its reasoning by tags of several tokens, which a constrained answer "
    "cannot follow; switch thinking off"
)


def _new_matcher(adapter: Any, grammar: str) -> Any:
    from llguidance import LLMatcher, LLParserLimits

    limits = LLParserLimits(verbose_errors=False)
    lark = LLMatcher.grammar_from_lark(grammar)
    matcher = LLMatcher(adapter, lark, log_level=0, limits=limits)
    matcher.compute_bitmask()
    if matcher.is_error():
        raise ValueError(in_words(matcher.get_error()))
    if matcher.is_stopped() and not matcher.is_accepting():
        raise ValueError("nothing satisfies it")
    return matcher
