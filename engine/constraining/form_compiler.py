"""Compiles the grammars of one loaded model's answers, and keeps the recently used ones.

Knows no MLX and no batch. Grammars are compiled on another thread than the engine's, and only after
the trial process has compiled them without crashing. The engine thread gets the result, a ``Form``.
"""

import threading
from collections import OrderedDict
from functools import cached_property
from typing import Any

from engine.constraining.compiling import new_matcher
from engine.constraining.drafting import (
    FormDraft,
    draft_of,
    form_field,
    is_same_form,
    schemas_of,
    text_form_of,
)
from engine.constraining.form import Form
from engine.constraining.grammar_helper import GrammarHelper, Refusal
from engine.constraining.grammar_vocabulary import GrammarVocabulary
from engine.constraining.grammars import answer_grammar, form_grammar, schema_grammar
from engine.constraining.schema_bounds import MOST_CHARACTERS
from engine.constraining.text_forms import checked_lark, field_of
from engine.constraining.token_constraint import ConstraintTokens
from engine.errors import InvalidRequest
from engine.output.families import Family
from engine.output.vocabulary import Vocabulary
from engine.processes.quiet_thread import done_quietly
from engine.values.request import GenerationRequest

_MOST_COMPILED = 64
# Most characters of all kept grammars: a compiled one takes some 200 bytes per character.
_MOST_COMPILED_CHARACTERS = 512 * 1024
_MOST_REFUSED = 256


class FormCompiler:
    """The grammars of one loaded model."""

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, family: Family) -> None:
        self._vocabulary = vocabulary
        self._family = family
        self._lock = threading.Lock()
        # By digest: the matcher, and the characters of its grammar.
        self._compiled: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._refused: OrderedDict[bytes, tuple[str, str]] = OrderedDict()
        self.grammar_vocabulary = GrammarVocabulary(tokenizer, vocabulary)
        self._last_draft: FormDraft | None = None

    @cached_property
    def tokens(self) -> ConstraintTokens:
        """The model's tokens, for constraints."""
        return ConstraintTokens(self._vocabulary, self._family)

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
        return None if compiled is None else Form(self, compiled[0].deep_copy())

    def prepare(self, draft: FormDraft, helper: GrammarHelper) -> Form:
        """Compile the grammar of an answer, first in the trial process. Blocks.

        One thread at a time, and not the engine thread: compiling may take seconds.
        """
        if (form := self.ready(draft)) is not None:
            return form
        request = draft.request
        self._learn_tokenizer(request)
        try:
            grammar = answer_grammar(request, self._family, self._lark_of(request, helper))
            matcher = self._compile(grammar, helper)
        except ValueError as error:
            refused = self._culprit(request, str(error), helper)
            if not isinstance(error, _Refused) or error.is_lasting:
                self._keep_refused(draft.digest, refused)
            raise InvalidRequest(*refused) from error
        self._keep_compiled(draft.digest, matcher, len(grammar))
        return Form(self, matcher.deep_copy())

    def _keep_refused(self, digest: bytes, why: tuple[str, str]) -> None:
        with self._lock:
            self._refused[digest] = why
            if len(self._refused) > _MOST_REFUSED:
                self._refused.popitem(last=False)

    def _keep_compiled(self, digest: bytes, matcher: Any, characters: int) -> None:
        with self._lock:
            kept = self._compiled
            kept[digest] = matcher, characters
            while len(kept) > 1 and (
                len(kept) > _MOST_COMPILED
                or sum(size for _, size in kept.values()) > _MOST_COMPILED_CHARACTERS
            ):
                kept.popitem(last=False)

    def _culprit(
        self, request: GenerationRequest, reason: str, helper: GrammarHelper
    ) -> tuple[str, str]:
        """Find the part that does not compile; return its field and the reason."""
        for field, schema in schemas_of(request):
            try:
                more = request.allows_more_keys
                self._compile(schema_grammar(schema, allows_more_keys=more), helper)
            except ValueError as error:
                return field, str(error)
        if (form := text_form_of(request)) is not None:
            try:
                self._compile(form_grammar(form, self._lark_of(request, helper)), helper)
            except ValueError as error:
                return field_of(form), str(error)
        return form_field(request), reason

    def _lark_of(self, request: GenerationRequest, helper: GrammarHelper) -> str | None:
        """Return the request's own grammar in Lark; None if it has none."""
        form = text_form_of(request)
        if form is None or form.grammar is None:
            return None
        tokens = self.grammar_vocabulary.library_tokens
        assert tokens is not None, "the tokenizer was checked"
        lark = helper.translated(tokens, form.grammar)
        if isinstance(lark, Refusal):
            raise _Refused(lark)
        return checked_lark(lark)

    def _compile(self, grammar: str, helper: GrammarHelper) -> Any:
        """Compile a grammar after the helper has compiled it without crashing."""
        if len(grammar) > MOST_CHARACTERS:
            raise ValueError(f"longer than {MOST_CHARACTERS} characters, written as JSON")
        tokens = self.grammar_vocabulary.library_tokens
        assert tokens is not None, "the tokenizer was checked"
        refusal = helper.refusal(tokens, grammar)
        if refusal is not None:
            raise _Refused(refusal)
        adapter = self.grammar_vocabulary.adapter
        return done_quietly(lambda: new_matcher(adapter, grammar))

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


class _Refused(ValueError):
    """The helper has refused a grammar."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.is_lasting = refusal.is_lasting
