"""The grammars of one loaded model's answers: compiled beside the engine thread, then held."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from engine.errors import InvalidRequest
from engine.grammar.compilation import new_matcher
from engine.grammar.grammars import (
    answer_grammar,
    arguments_schema,
    constraint_field,
    form_field,
    may_call,
    parameters_field,
    schema_grammar,
)
from engine.grammar.masks import (
    CompiledGrammar,
    ConstraintPhase,
    ConstraintTokens,
    TokenConstraint,
    is_constrained,
)
from engine.grammar.schemas import MAX_CHARACTERS
from engine.output.families import PLAIN, Family
from engine.output.vocabulary import Vocabulary
from engine.threads import run_with_stack
from engine.values.request import GenerationRequest, Tool

# A compiled grammar takes some 200 bytes per character.
_MAX_COMPILED_CHARACTERS = 512 * 1024
_LONG_TAG = (
    "this model marks its reasoning by tags of several tokens, which a constrained answer "
    "cannot follow; switch thinking off"
)


class GrammarCompiler:
    """The constraints for the answers of one loaded model."""

    def __init__(
        self,
        tokenizer: Any,
        vocabulary: Vocabulary,
        family: Family,
        calling_family: Family,
    ) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._family = family
        self._calling_family = calling_family
        self._lock = threading.Lock()
        self._compiled: OrderedDict[str, Any] = OrderedDict()

    @cached_property
    def tokens(self) -> ConstraintTokens:
        """The model's tokens, for constraints; raises ``ValueError`` if these are impossible."""
        return ConstraintTokens(self._tokenizer, self._vocabulary, self._family)

    def family_of(self, request: GenerationRequest) -> Family:
        return self._calling_family if request.tool_choice.mode == "required" else self._family

    def check(self, request: GenerationRequest) -> None:
        """Check what needs no grammar; raises ``InvalidRequest``. Any thread."""
        choice = request.tool_choice
        if choice.name is not None and choice.mode != "required":
            raise InvalidRequest("tool_choice", "a tool can be named only where one is required")
        if not is_constrained(request):
            return
        field = form_field(request)
        if not self._vocabulary.eos:
            raise InvalidRequest(field, "this model has no EOS token to end the answer with")
        if request.prompt is not None:
            if self._family.has_headers:
                raise InvalidRequest(field, "this model needs messages for it, not a raw prompt")
        elif request.continues_answer:
            raise InvalidRequest(
                field,
                "the last message is the assistant's, and the answer that it began cannot be "
                "constrained any more; end the messages with another role",
            )

    def prepare(self, request: GenerationRequest) -> CompiledGrammar:
        """Compile the grammar of an answer; raises ``InvalidRequest``.

        Blocks, perhaps for seconds: not for the engine thread.
        """
        try:
            with self._lock:
                _ = self.tokens
        except Exception as error:
            reason = f"this model's answers cannot be constrained to a form: {error}"
            raise InvalidRequest(form_field(request), reason) from error
        try:
            try:
                return self._answer(request)
            except ValueError:
                request, left_out = self._loosened(request)
                if not left_out:
                    raise
                compiled = self._answer(request)
                return CompiledGrammar(compiled.matcher, (*compiled.left_out, *left_out))
        except ValueError as error:  # tools' schemas compile by now
            raise InvalidRequest(constraint_field(request), str(error)) from error

    def _answer(self, request: GenerationRequest) -> CompiledGrammar:
        """Return the grammar of an answer; raises ``ValueError`` if it does not compile."""
        family, spell = self.family_of(request), self.tokens.spell
        if family is not self._calling_family:
            request = replace(request, tools=())  # a model without a format of calls makes none
        grammar, left_out = answer_grammar(request, family, spell)
        with self._lock:
            if (matcher := self._compiled.get(grammar)) is not None:
                self._compiled.move_to_end(grammar)
        if matcher is None:
            matcher = self._compile(grammar)
            with self._lock:
                kept = self._compiled
                kept[grammar] = matcher
                while len(kept) > 1 and sum(map(len, kept)) > _MAX_COMPILED_CHARACTERS:
                    kept.popitem(last=False)
        return CompiledGrammar(matcher.deep_copy(), left_out)

    def _loosened(self, request: GenerationRequest) -> tuple[GenerationRequest, list[str]]:
        """Return the request without the parts of its tools' schemas that do not compile.

        One such schema among many would otherwise refuse them all. Returns those parts' fields too.
        """
        left_out: list[str] = []

        def compiles(schema: Mapping[str, Any]) -> bool:
            try:
                self._compile(schema_grammar(schema, allows_more_keys=request.allows_more_keys))
            except ValueError:
                return False
            return True

        def loose(tool: Tool) -> Tool:
            schema, field = arguments_schema(tool), parameters_field(tool)
            if compiles(schema):
                return tool
            properties = schema.get("properties")
            properties = properties if isinstance(properties, Mapping) else {}
            bad = [
                name
                for name, value in properties.items()
                if not compiles({**schema, "properties": {name: value}, "required": []})
            ]
            kept = {**schema, "properties": {**properties, **dict.fromkeys(bad, True)}}
            if bad and compiles(kept):
                left_out.extend(f"{field}.properties.{name}" for name in bad)
                return replace(tool, parameters=kept)
            left_out.append(field)
            return replace(tool, parameters={"type": "object", "additionalProperties": True})

        tools = tuple(map(loose, request.tools)) if may_call(request) else request.tools
        return replace(request, tools=tools), left_out

    def _compile(self, grammar: str) -> Any:
        """Compile a grammar; the library recurses deeply, and other threads run meanwhile."""
        if len(grammar) > MAX_CHARACTERS:
            raise ValueError(f"longer than {MAX_CHARACTERS} characters, written as JSON")
        tokenizer = self.tokens.tokenizer
        # The library recurses over the rules: 65,536 characters may be a chain of 7,000.
        return run_with_stack(lambda: new_matcher(tokenizer, grammar), stack_bytes=64 << 20)

    def answer_family(
        self, request: GenerationRequest, prompt: Sequence[int], *, thinks: bool
    ) -> Family:
        """Return the family of the answer to a checked request, with the tags that can occur in it.

        Other tags, for instance in a string of the JSON, are text, and so are all tags of an answer
        to a raw prompt; raises ``InvalidRequest``.
        """
        thinking = True
        if is_constrained(request):
            thinking = self._first_phase(request, prompt, thinks) is ConstraintPhase.OPEN
        if request.prompt is not None:
            return PLAIN
        family = self.family_of(request)
        if not may_call(request) or (family.has_bare_calls and request.continues_answer):
            return family.with_tags(thinking=thinking, tools=False)
        family = family.with_tags(thinking=thinking, tools=True)
        return family.with_untagged_calls(tool.name for tool in request.tools)

    def constrain(
        self,
        request: GenerationRequest,
        prompt: Sequence[int],
        compiled: CompiledGrammar | None,
        *,
        thinks: bool,
    ) -> TokenConstraint | None:
        """Return the constraint of a checked request's answer; raises as ``answer_family`` does."""
        if compiled is None:
            return None
        phase = self._first_phase(request, prompt, thinks)
        constraint = request.constraint
        own = None if constraint is None else constraint.text_form
        is_own = own is not None and own.grammar is not None
        return TokenConstraint(compiled.matcher, self.tokens, phase, is_own=is_own)

    def _first_phase(
        self, request: GenerationRequest, prompt: Sequence[int], thinks: bool
    ) -> ConstraintPhase:
        tokens, family = self.tokens, self._family
        if request.prompt is not None:
            return ConstraintPhase.ANSWER
        if thinks:
            if tokens.closing is None:
                raise InvalidRequest("thinking", _LONG_TAG)
            return ConstraintPhase.REASONING
        if request.thinking is False or family.think_start is None or self._is_over(prompt):
            return ConstraintPhase.ANSWER
        if tokens.opening is not None and tokens.closing is not None:
            return ConstraintPhase.OPEN
        if request.thinking:
            raise InvalidRequest("thinking", _LONG_TAG)
        return ConstraintPhase.ANSWER

    def _is_over(self, prompt: Sequence[int]) -> bool:
        text = "".join(self._vocabulary.text_of(token_id) for token_id in prompt[-16:])
        tag = self._family.think_end
        return bool(tag) and text.rstrip().endswith(str(tag))
