"""Checks whether an answer can be constrained to the form that a request asks for, and does it.

Knows no MLX and no batch. ``form_compiler`` compiles the grammars.
"""

from collections.abc import Sequence
from typing import Any

from engine.constraining.drafting import form_field, text_form_of
from engine.constraining.form import Form, FormMissing, is_constrained
from engine.constraining.form_compiler import FormCompiler
from engine.constraining.grammars import may_call
from engine.constraining.token_constraint import ConstraintPhase, TokenConstraint
from engine.errors import InvalidRequest
from engine.output.families import Family
from engine.output.vocabulary import Vocabulary
from engine.values.request import GenerationRequest


class Constraints:
    """The constraints for the answers of one loaded model.

    Args:
        tokenizer: The Hugging Face tokenizer.
        vocabulary: Its token ids.
        family: How it marks the channels of its output.

    Attributes:
        compiler: Compiles the grammars, on any other thread.
    """

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, family: Family) -> None:
        self._vocabulary = vocabulary
        self._family = family
        self.compiler = FormCompiler(tokenizer, vocabulary, family)

    def check(self, request: GenerationRequest, form: Form | None) -> None:
        """Check, before the prompt is rendered, that the answer can be constrained as requested.

        Args:
            request: The request, constrained or not.
            form: The form that was prepared for it, if it is constrained.

        Raises:
            InvalidRequest: It cannot; the message names the field and the remedy.
            FormMissing: It is constrained, and no form was prepared, or one for another model.
        """
        choice = request.tool_choice
        if choice.name is not None and choice.mode != "required":
            raise InvalidRequest("tool_choice", "a tool can be named only where one is required")
        if is_constrained(request):
            self._check_beginning(request)
            if form is None or form.maker is not self.compiler:
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

    def _check_beginning(self, request: GenerationRequest) -> None:
        field = form_field(request)
        if not self._vocabulary.eos:
            raise InvalidRequest(field, "this model has no EOS token to end the answer with")
        if request.prompt is not None:
            if self._family.has_headers:
                raise InvalidRequest(field, "this model needs messages for it, not a raw prompt")
        elif request.continues_message:
            raise InvalidRequest(
                field,
                "the last message is the assistant's, and the answer that it began cannot be "
                "constrained any more; end the messages with another role",
            )

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
