"""Checks that an answer can be held to the form that a request asks for, and compiles its grammar.

Knows no MLX and no batch. Grammars are compiled on another thread than the engine's, and only
after another process has survived them; the engine thread receives the result, a ``Form``.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

from engine.constraining.compiling import new_matcher
from engine.constraining.drafting import FormDraft, draft_of, form_field, schemas_of
from engine.constraining.form import Form, FormMissing, is_constrained
from engine.constraining.grammar_helper import GrammarHelper, Refusal
from engine.constraining.grammar_vocabulary import GrammarVocabulary
from engine.constraining.grammars import (
    answer_grammar,
    may_call,
    schema_grammar,
)
from engine.constraining.schema_bounds import MOST_CHARACTERS
from engine.constraining.token_constraint import ConstraintPhase, ConstraintTokens, TokenConstraint
from engine.errors import InvalidRequest
from engine.output.families.family import Family
from engine.output.vocabulary import Vocabulary
from engine.values.request import GenerationRequest

_MOST_COMPILED = 64
_MOST_REFUSED = 256

T = TypeVar("T")


class Constraints:
    """The grammars of one loaded model.

    Args:
        tokenizer: The Hugging Face tokenizer.
        vocabulary: Its token ids.
        family: How it marks the channels of its output.

    Attributes:
        grammar_vocabulary: What the grammar library knows of the model's tokens.
    """

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, family: Family) -> None:
        self._vocabulary = vocabulary
        self._family = family
        self._lock = threading.Lock()
        self._compiled: OrderedDict[bytes, Any] = OrderedDict()
        self._refused: OrderedDict[bytes, tuple[str, str]] = OrderedDict()
        self.grammar_vocabulary = GrammarVocabulary(tokenizer, vocabulary)
        self._last_draft: FormDraft | None = None

    @cached_property
    def _tokens(self) -> ConstraintTokens:
        return ConstraintTokens(self._vocabulary, self._family)

    def check(self, request: GenerationRequest, form: Form | None) -> None:
        """Check, before a prompt is rendered, that its answer can be held to what is asked.

        Args:
            request: The request, constrained or not.
            form: What was prepared for it, if it is constrained.

        Raises:
            InvalidRequest: It cannot; the message names the field and says what would do.
            FormMissing: It is constrained, and nothing was prepared, or for another model.
        """
        choice = request.tool_choice
        if choice.name is not None and choice.mode != "required":
            raise InvalidRequest("tool_choice", "a tool can be named only where one is required")
        if is_constrained(request):
            self._check_beginning(request)
            if form is None or form.maker is not self:
                raise FormMissing(self)

    def family_of(
        self, request: GenerationRequest, prompt: Sequence[int], *, thinks: bool
    ) -> Family:
        """Return the family of the answer to a checked request.

        It has no tags that cannot occur in the answer: what only looks like one, in a string of
        the JSON for instance, is text.

        Args:
            request: The request, constrained or not.
            prompt: Its token ids.
            thinks: Whether the prompt leaves reasoning open.

        Raises:
            InvalidRequest: An answer that begins so cannot be held to its form.
        """
        if not is_constrained(request):
            return self._family
        phase = self._first_phase(request, prompt, thinks)
        return self._family.narrowed(thinks=phase is ConstraintPhase.OPEN, calls=may_call(request))

    def hold(
        self,
        request: GenerationRequest,
        prompt: Sequence[int],
        form: Form | None,
        *,
        thinks: bool,
    ) -> TokenConstraint | None:
        """Return the constraint of a checked request's answer; None where it is free."""
        if form is None or not is_constrained(request):
            return None
        phase = self._first_phase(request, prompt, thinks)
        return TokenConstraint(form.matcher, self._tokens, phase)

    def _check_beginning(self, request: GenerationRequest) -> None:
        field = form_field(request)
        if not self._vocabulary.eos:
            raise InvalidRequest(field, "this model has no EOS token to end the answer with")
        if request.prompt is not None:
            if self._family.has_headers:
                raise InvalidRequest(field, "this model needs messages for it, not a raw prompt")
        elif request.messages and request.messages[-1].role == "assistant":
            raise InvalidRequest(
                field,
                "the last message is the assistant's, and the answer that it began cannot be "
                "constrained any more; end the messages with another role",
            )

    def _first_phase(
        self, request: GenerationRequest, prompt: Sequence[int], thinks: bool
    ) -> ConstraintPhase:
        tokens, family = self._tokens, self._family
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
        """Say whether the prompt ends with reasoning that is closed already."""
        text = "".join(self._vocabulary.text_of(token_id) for token_id in prompt[-16:])
        tag = self._family.think_end
        return bool(tag) and text.rstrip().endswith(str(tag))

    # -- grammars --------------------------------------------------------------------------

    def draft(self, request: GenerationRequest) -> FormDraft:
        """Check the bounds of a request's schemas before they are compiled. Any thread.

        Takes a few milliseconds at most, whatever the schemas are.

        Raises:
            InvalidRequest: One of them goes beyond what is supported.
        """
        self._last_draft = draft = draft_of(request, self._last_draft)
        return draft

    def ready(self, draft: FormDraft) -> Form | None:
        """Return the form of a draft that was prepared lately; None where it was not. Any thread.

        Raises:
            InvalidRequest: It was refused lately.
        """
        with self._lock:
            refused = self._refused.get(draft.digest)
            matcher = self._compiled.get(draft.digest)
            if matcher is not None:
                self._compiled.move_to_end(draft.digest)
        if refused is not None:
            raise InvalidRequest(*refused)
        return None if matcher is None else Form(self, matcher.deep_copy())

    def prepare(self, draft: FormDraft, helper: GrammarHelper) -> Form:
        """Compile what holds an answer to its form: first where it can do no harm. Blocks.

        One thread at a time, and not the engine thread: compiling takes up to seconds.

        Args:
            draft: What ``draft`` returned.
            helper: Tries each grammar before this process does.

        Raises:
            InvalidRequest: It cannot be compiled; the message names the field.
            HelperUnavailable: It cannot be tried.
            EngineClosed: The helper has been closed.
        """
        if (form := self.ready(draft)) is not None:
            return form
        request = draft.request
        if (problem := self.grammar_vocabulary.hand_over(self._tokens)) is not None:
            reason = f"this model's tokenizer cannot be held to a form: {problem}"
            raise InvalidRequest(form_field(request), reason)
        try:
            grammar = answer_grammar(request, self._family)
            matcher = self._compile(grammar, helper)
        except ValueError as error:
            refused = self._culprit(request, str(error), helper)
            if not isinstance(error, _Refused) or error.is_lasting:
                self._keep(self._refused, draft.digest, refused, _MOST_REFUSED)
            raise InvalidRequest(*refused) from error
        self._keep(self._compiled, draft.digest, matcher, _MOST_COMPILED)
        return Form(self, matcher.deep_copy())

    def _keep(self, kept: OrderedDict[bytes, T], digest: bytes, value: T, most: int) -> None:
        with self._lock:
            kept[digest] = value
            if len(kept) > most:
                kept.popitem(last=False)

    def _culprit(
        self, request: GenerationRequest, reason: str, helper: GrammarHelper
    ) -> tuple[str, str]:
        """Find the schema that does not compile; return its field and what is wrong with it."""
        for field, schema in schemas_of(request):
            try:
                more = request.allows_more_keys
                self._compile(schema_grammar(schema, allows_more_keys=more), helper)
            except ValueError as error:
                return field, str(error)
        return form_field(request), reason

    def _compile(self, grammar: str, helper: GrammarHelper) -> Any:
        """Compile a grammar that the helper has survived.

        Raises:
            ValueError: It has not, or the grammar is wrong.
        """
        if len(grammar) > MOST_CHARACTERS:
            raise ValueError(f"longer than {MOST_CHARACTERS} characters, written as JSON")
        told = self.grammar_vocabulary.told
        assert told is not None, "the tokenizer was checked"
        refusal = helper.refusal(told, grammar)
        if refusal is not None:
            raise _Refused(refusal)
        return new_matcher(self.grammar_vocabulary.adapter, grammar)

    def learn_if_large(self) -> None:
        """Hand the library a large vocabulary, which keeps every thread waiting for a while.

        To be called while the model is loaded, when no answer is under way that would stand still.
        A small vocabulary takes milliseconds, and is handed over when it is first needed.
        """
        if self.grammar_vocabulary.is_large:
            self.grammar_vocabulary.hand_over(self._tokens)


class _Refused(ValueError):
    """The helper has refused a grammar."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.is_lasting = refusal.is_lasting


_LONG_TAG = (
    "this model marks its reasoning by tags of several tokens, which a constrained answer "
    "cannot follow; switch thinking off"
)
