"""Compiles the forms of one model's answers, on another thread than the engine's."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from engine.errors import InvalidRequest
from engine.grammar.compilation import as_lark, check_beginning, new_matcher
from engine.grammar.grammars import (
    AnswerGrammar,
    FormDraft,
    answer_grammar,
    arguments_schema,
    checked_lark,
    draft_of,
    field_of,
    form_field,
    form_grammar,
    is_same_form,
    may_call,
    parameters_field,
    schema_grammar,
    schemas_of,
    text_form_of,
    without_schema,
)
from engine.grammar.masks import (
    ConstraintPhase,
    ConstraintTokens,
    Form,
    FormMissing,
    GrammarVocabulary,
    TokenConstraint,
    is_constrained,
)
from engine.grammar.schema_bounds import MAX_CHARACTERS
from engine.output.families import Family
from engine.output.vocabulary import Vocabulary
from engine.processes import done_quietly
from engine.values.request import GenerationRequest, Tool

# The library recurses over the rules of a grammar: its 65,536 characters may be a chain of 7,000.
_STACK_BYTES = 64 << 20
_MAX_COMPILED = 64
# Most characters of all kept grammars: a compiled one takes some 200 bytes per character.
_MAX_COMPILED_CHARACTERS = 512 * 1024
_MAX_REFUSED = 256


class FormCompiler:
    """The grammars of one loaded model.

    Args:
        tokenizer: The Hugging Face tokenizer.
        vocabulary: Its token ids.
        family: How it marks the channels of its output.
        calling_family: The same for forced calls: the family itself, or one that has a format of
            calls where the model has none that is known.
    """

    def __init__(
        self,
        tokenizer: Any,
        vocabulary: Vocabulary,
        family: Family,
        calling_family: Family,
    ) -> None:
        self._vocabulary = vocabulary
        self._family = family
        self._calling_family = calling_family
        self._lock = threading.Lock()
        # By digest: the matcher with its grammar.
        self._compiled: OrderedDict[bytes, tuple[Any, AnswerGrammar]] = OrderedDict()
        self._refused: OrderedDict[bytes, tuple[str, str]] = OrderedDict()
        self.grammar_vocabulary = GrammarVocabulary(tokenizer, vocabulary)
        self._last_draft: FormDraft | None = None

    @cached_property
    def tokens(self) -> ConstraintTokens:
        """The model's tokens, for constraints."""
        return ConstraintTokens(self._vocabulary, self._family)

    def family_of(self, request: GenerationRequest) -> Family:
        """Return how the model writes the answer to a request."""
        return self._calling_family if request.tool_choice.mode == "required" else self._family

    def check(self, request: GenerationRequest) -> None:
        """Check what needs no grammar, so that a refusal is the same whether one is known.

        Raises ``InvalidRequest``. Any thread.
        """
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

    def drafted(self, request: GenerationRequest) -> FormDraft | None:
        """Return the last draft if this request has the same form. Any thread."""
        last = self._last_draft
        return last if last is not None and is_same_form(last.request, request) else None

    def draft(self, request: GenerationRequest) -> FormDraft:
        """Check the bounds of a request's schemas before they are compiled. Any thread.

        Takes some ten milliseconds for the largest schemas.
        """
        self._last_draft = draft = draft_of(request, self._last_draft)
        return draft

    def ready(self, draft: FormDraft) -> Form | None:
        """Return the form of a draft that was prepared recently, otherwise None. Any thread."""
        with self._lock:
            refused = self._refused.get(draft.digest)
            compiled = self._compiled.get(draft.digest)
            if compiled is not None:
                self._compiled.move_to_end(draft.digest)
        if refused is not None:
            raise InvalidRequest(*refused)
        return None if compiled is None else self._form(*compiled)

    def _form(self, matcher: Any, grammar: AnswerGrammar) -> Form:
        return Form(self, matcher.deep_copy(), grammar.left_out)

    def prepare(self, draft: FormDraft) -> Form:
        """Compile the grammar of an answer. Blocks.

        One thread at a time, and not the engine thread: compiling may take seconds.
        """
        if (form := self.ready(draft)) is not None:
            return form
        request, left_out = replace(draft.request, tools=draft.tools), draft.left_out
        self._learn_tokenizer(request)
        try:
            try:
                matcher, grammar = self._answer(request)
            except ValueError:
                request, loosened = self._loosened(request)
                if not loosened:
                    raise
                matcher, grammar = self._answer(request)
                left_out += tuple(loosened)
            grammar = replace(grammar, left_out=(*grammar.left_out, *left_out))
        except ValueError as error:
            refused = self._culprit(request, str(error))
            self._keep_refused(draft.digest, refused)
            raise InvalidRequest(*refused) from error
        self._keep_compiled(draft.digest, matcher, grammar)
        return self._form(matcher, grammar)

    def _answer(self, request: GenerationRequest) -> tuple[Any, AnswerGrammar]:
        """Return the compiled grammar of an answer, with the grammar."""
        family, spell = self.family_of(request), self.grammar_vocabulary.spell
        if family is not self._calling_family:
            request = replace(request, tools=())  # a model without a format of calls makes none
        grammar = answer_grammar(request, family, spell, self._lark_of(request))
        return self._compile(grammar.text), grammar

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
            return without_schema(tool)

        tools = tuple(map(loose, request.tools)) if may_call(request) else request.tools
        return replace(request, tools=tools), left_out

    def _keep_refused(self, digest: bytes, why: tuple[str, str]) -> None:
        with self._lock:
            self._refused[digest] = why
            if len(self._refused) > _MAX_REFUSED:
                self._refused.popitem(last=False)

    def _keep_compiled(self, digest: bytes, matcher: Any, grammar: AnswerGrammar) -> None:
        with self._lock:
            kept = self._compiled
            kept[digest] = matcher, grammar
            while len(kept) > 1 and (
                len(kept) > _MAX_COMPILED
                or sum(len(one.text) for _, one in kept.values()) > _MAX_COMPILED_CHARACTERS
            ):
                kept.popitem(last=False)

    def _culprit(self, request: GenerationRequest, reason: str) -> tuple[str, str]:
        """Find the part that does not compile; return its field and the reason."""
        for field, schema in schemas_of(request):
            try:
                more = request.allows_more_keys
                self._compile(schema_grammar(schema, allows_more_keys=more))
            except ValueError as error:
                return field, str(error)
        if (form := text_form_of(request)) is not None:
            try:
                self._compile(form_grammar(form, self._lark_of(request)))
            except ValueError as error:
                return field_of(form), str(error)
        return form_field(request), reason

    def _lark_of(self, request: GenerationRequest) -> str | None:
        """Return the request's own grammar in Lark; None if it has none."""
        form = text_form_of(request)
        if form is None or form.grammar is None:
            return None
        return checked_lark(as_lark(form.grammar))

    def _compile(self, grammar: str) -> Any:
        """Compile a grammar; a thread of low priority does it, and other threads run meanwhile."""
        if len(grammar) > MAX_CHARACTERS:
            raise ValueError(f"longer than {MAX_CHARACTERS} characters, written as JSON")
        adapter = self.grammar_vocabulary.adapter

        def compiled() -> Any:
            matcher = new_matcher(adapter, grammar)
            check_beginning(matcher, adapter)
            return matcher

        return done_quietly(compiled, stack_bytes=_STACK_BYTES)

    def learn_if_large(self) -> None:
        """Hand a large vocabulary to the library, which blocks all threads for a while.

        Call it while the model is being loaded, when no answer runs that would pause. A small
        vocabulary takes milliseconds, and is handed over when it is first needed.
        """
        if self.grammar_vocabulary.is_large:
            self.grammar_vocabulary.hand_over(self.tokens)

    def _learn_tokenizer(self, request: GenerationRequest) -> None:
        """Hand the model's vocabulary to the library, once."""
        if (problem := self.grammar_vocabulary.hand_over(self.tokens)) is not None:
            reason = f"this model's answers cannot be constrained to a form: {problem}"
            raise InvalidRequest(form_field(request), reason)


class Constraints:
    """The constraints for the answers of one loaded model.

    Args:
        tokenizer: The Hugging Face tokenizer.
        vocabulary: Its token ids.
        family: How it marks the channels of its output.
        calling_family: The same for forced calls; see ``FormCompiler``.

    Attributes:
        compiler: Compiles the grammars, on any other thread.
    """

    def __init__(
        self,
        tokenizer: Any,
        vocabulary: Vocabulary,
        family: Family,
        calling_family: Family,
    ) -> None:
        self._vocabulary = vocabulary
        self._family = family
        self.compiler = FormCompiler(tokenizer, vocabulary, family, calling_family)

    def check(self, request: GenerationRequest, form: Form | None) -> None:
        """Check, before the prompt is rendered, that the answer can be constrained as requested.

        Args:
            request: The request, constrained or not.
            form: The form that was prepared for it, if it is constrained.

        Raises:
            InvalidRequest: It cannot; the message names the field and the remedy.
            FormMissing: It is constrained, and no form was prepared, or one for another model.
        """
        self.compiler.check(request)
        if is_constrained(request) and (form is None or form.maker is not self.compiler):
            raise FormMissing(self.compiler)

    def family_of(
        self, request: GenerationRequest, prompt: Sequence[int], *, thinks: bool
    ) -> Family:
        """Return the family of the answer to a checked request.

        It has only the tags that can occur in the answer. Anything else that looks like a tag, for
        instance in a string of the JSON, is text.

        Args:
            request: The request, constrained or not.
            prompt: Its token ids.
            thinks: Whether the prompt leaves reasoning open.

        Raises:
            InvalidRequest: An answer with this beginning cannot have its form.
        """
        family = self.compiler.family_of(request)
        if not is_constrained(request):
            return family
        phase = self._first_phase(request, prompt, thinks)
        return family.narrowed(thinks=phase is ConstraintPhase.OPEN, calls=may_call(request))

    def hold(
        self,
        request: GenerationRequest,
        prompt: Sequence[int],
        form: Form | None,
        *,
        thinks: bool,
    ) -> TokenConstraint | None:
        """Return the constraint of a checked request's answer; None where it is free.

        Args:
            request: The request, which has passed ``check``.
            prompt: Its token ids.
            form: The form that was prepared for it, if it is constrained.
            thinks: Whether the prompt leaves reasoning open.

        Raises:
            InvalidRequest: An answer with this beginning cannot have its form.
        """
        if form is None or not is_constrained(request):
            return None
        phase = self._first_phase(request, prompt, thinks)
        own = text_form_of(request)
        is_own = own is not None and own.grammar is not None
        return TokenConstraint(form.matcher, self.compiler.tokens, phase, is_own=is_own)

    def _first_phase(
        self, request: GenerationRequest, prompt: Sequence[int], thinks: bool
    ) -> ConstraintPhase:
        tokens, family = self.compiler.tokens, self._family
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
        """Return whether the prompt ends with reasoning that is closed already."""
        text = "".join(self._vocabulary.text_of(token_id) for token_id in prompt[-16:])
        tag = self._family.think_end
        return bool(tag) and text.rstrip().endswith(str(tag))


_LONG_TAG = (
    "this model marks its reasoning by tags of several tokens, which a constrained answer "
    "cannot follow; switch thinking off"
)
