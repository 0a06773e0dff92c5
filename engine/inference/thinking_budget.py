"""Ends the reasoning of an answer once its budget is used up, or once it repeats itself.

Where the budget is used up, the model's own draw is looked at first: if it ends the reasoning (or
the answer), nothing is forced, so a budget that is not exceeded leaves no trace. Otherwise the
tokens that end reasoning, as the model's own template writes them, are forced, and the answer
continues after them. The model cannot open reasoning again. The forced token at a position depends
only on the tokens before it, so a budget gives the same answer with drafts and without. Tokens are
counted as the batch returns them. The engine waits for the device only where the budget may run
out. Engine thread.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.conversation.template import ChatTemplate
from engine.grammar.masks import is_constrained
from engine.inference.backend import Prompt
from engine.inference.sampling import Sampler
from engine.inference.speculation.sources import WIDTHS
from engine.inference.text import encoded
from engine.output.families import Family
from engine.output.prompt_end import Splitter, read_token
from engine.output.vocabulary import Vocabulary
from engine.stopping.record import Channel
from engine.stopping.repetition import Repetition, RepetitionDetection, RepetitionDetector
from engine.values.events import BudgetEnd
from engine.values.request import Effort, GenerationRequest, LimitSource

BUDGET_OF_EFFORT = {
    **dict.fromkeys((Effort.NONE, Effort.MINIMAL, Effort.LOW), 1_024),
    Effort.MEDIUM: 8_192,
}
"""Most tokens of reasoning, if the template does not know efforts; other efforts have no limit."""

# Budgets that no request set.
_DEFAULTS = (LimitSource.SERVER, LimitSource.API, LimitSource.MODEL)


@dataclass(frozen=True, slots=True)
class Edges:
    """The tokens around reasoning.

    ``closing`` begins with the ``tag`` that ends reasoning; ``before`` is the white space that a
    template writes before it, and ``opening`` shows that reasoning begins.
    """

    before: tuple[int, ...]
    closing: tuple[int, ...]
    tag: tuple[int, ...]
    opening: tuple[int, ...]


class ReasoningCount:
    """Counts the tokens of reasoning in an answer, and finds cycles; its tags do not count."""

    def __init__(
        self,
        splitter: Splitter,
        vocabulary: Vocabulary,
        budget: int | None,
        detection: RepetitionDetection | None,
    ) -> None:
        self.tokens = 0
        self.remaining = math.inf if budget is None else budget
        self.is_inside = splitter.channel is Channel.THINKING
        self.ended_at: int | None = 0 if budget == 0 else None
        self.detector = RepetitionDetector(detection)
        self.repetition: Repetition | None = None
        self.splitter = splitter
        self._vocabulary = vocabulary

    def take(self, token_id: int) -> None:
        """Take the next token of the answer; nothing changes once the budget is used up."""
        if self.ended_at is not None:
            return
        was_inside = self.is_inside
        for _ in read_token(token_id, self.splitter, self._vocabulary):
            pass
        self.tokens += 1
        self.is_inside = self.splitter.channel is Channel.THINKING
        if was_inside is not self.is_inside:
            self.detector.restart(self.tokens)
        elif self.is_inside:
            self.remaining -= 1
            self.repetition = self.detector.add(token_id)
            if not self.remaining or self.repetition is not None:
                self.ended_at = self.tokens

    def can_end_within(self, tokens: int) -> bool:
        """Return whether this many further tokens can use up the budget, or complete a cycle."""
        fewest = min(self.remaining, self.detector.tokens_left)
        return tokens >= fewest + (not self.is_inside)

    def after(self, tokens: Sequence[int]) -> "ReasoningCount":
        count = copy.copy(self)
        count.splitter = copy.deepcopy(self.splitter)
        count.detector = copy.deepcopy(self.detector)
        for token_id in tokens:
            count.take(token_id)
        return count


class BudgetProcessor:
    """A logits processor that forces the end of reasoning where the budget is used up.

    Its result depends only on the tokens before a position, whether sampled or drafted. Positions
    are those of the answer, whose first token is 0.
    """

    def __init__(
        self,
        count: ReasoningCount,
        edges: Edges,
        prompt_tokens: int,
        budget: int | None,
        eos: frozenset[int],
        sampler: Sampler,
    ) -> None:
        self._count = count
        self._edges = edges
        self._prompt_tokens = prompt_tokens
        self._budget = budget
        self._eos = eos
        self._sampler = sampler
        # How many tokens the batch has returned.
        self._returned = 0
        # The tokens that are forced, and the position of the first; none while the model may still
        # end its reasoning itself, perhaps with the rest of a tag that it has begun.
        self._forced: tuple[int, ...] = ()
        self._forced_at = 0
        # Added to the logits, it rules out the token that opens reasoning.
        self._shut: mx.array | None = None

    @property
    def is_stateful(self) -> bool:
        """Whether a pass over several tokens has to draw them one after the other."""
        count, edges = self._count, self._edges
        if count.ended_at is None:
            return count.can_end_within(WIDTHS[-1])
        last = count.ended_at + len(edges.before) + len(edges.closing)
        return count.is_inside and self._returned < last

    def take(self, token_id: int) -> BudgetEnd | None:
        """Take a token that the batch returned; return the end if it is the first forced one."""
        self._count.take(token_id)
        position, self._returned = self._returned, self._returned + 1
        if not self._forced or position != self._forced_at:
            return None
        return BudgetEnd(position, len(self._forced), self._budget, self._count.repetition)

    def __call__(self, context: mx.array, logits: mx.array) -> mx.array:
        """Return the logits of shape (1, vocabulary), those of other tokens at minus infinity."""
        position = context.size - self._prompt_tokens
        count = self._count
        if count.ended_at is None:
            if not count.can_end_within(position - count.tokens):
                return logits
            unread: Any = context[self._prompt_tokens + count.tokens :].tolist()
            count = count.after(unread)
            if count.ended_at is None:
                return logits
        if not count.is_inside:
            return self._kept_closed(context, logits)
        if not self._forced or position <= self._forced_at or position == count.ended_at:
            written, self._forced = position - count.ended_at, ()
            if written >= len(self._edges.tag):
                return self._kept_closed(context, logits)
            if self._ends_by_itself(logits, written):
                return logits
            before = () if written else self._edges.before
            self._forced, self._forced_at = (*before, *self._edges.closing[written:]), position
        index = position - self._forced_at
        if index < len(self._forced):
            is_forced = mx.arange(logits.shape[-1]) == self._forced[index]
            # Overrides any bias or penalty on that token.
            return mx.where(is_forced, mx.zeros_like(logits), mx.array(-math.inf, logits.dtype))
        return self._kept_closed(context, logits)

    def _ends_by_itself(self, logits: mx.array, written: int) -> bool:
        """Whether the model draws the next token of the tag, or ends the answer instead."""
        drawn = self._sampler.peek(logits)
        return drawn == self._edges.tag[written] or (not written and drawn in self._eos)

    def _kept_closed(self, context: mx.array, logits: mx.array) -> mx.array:
        """Return the logits without the token that would open reasoning; does not wait."""
        *before, last = self._edges.opening
        if self._shut is None:
            is_opening = mx.arange(logits.shape[-1]) == last
            self._shut = mx.where(is_opening, -math.inf, 0.0).astype(logits.dtype)
        if not before:
            return logits + self._shut
        is_begun = mx.all(context[-len(before) :] == mx.array(before))
        return mx.where(is_begun, logits + self._shut, logits)


class ThinkingBudgets:
    """The budgets of the answers of one loaded model."""

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._vocabulary = vocabulary
        self._spaces: tuple[str, str] | None = None

    def budget_of(self, request: GenerationRequest) -> int | None:
        """Return the most tokens of reasoning that a request's answer may have; None for any.

        A budget in the request takes precedence over its effort. An effort becomes a budget only
        where reasoning is not switched off and the model's template does not know efforts itself.
        """
        if request.thinking_budget is not None:
            return request.thinking_budget
        if request.effort is None or request.thinking is False:
            return None
        if self._template.effort_of(request) is not None:
            return None
        return BUDGET_OF_EFFORT.get(request.effort)

    def unused_options(self, request: GenerationRequest, family: Family) -> Iterator[str]:
        """Yield the names of options for reasoning without effect, each with the reason."""
        budget, effort, template = request.thinking_budget, request.effort, self._template
        if request.prompt is not None:
            return
        has_variable = "thinking_budget" in template.variables
        is_default = request.thinking_budget_from in _DEFAULTS
        if budget and not (is_default or has_variable):
            limit = request.max_tokens
            if not self.can_end(request, family):
                yield "thinking_budget (this model has no reasoning to end)"
            elif limit is not None and budget >= limit:
                yield f"thinking_budget (the limit of {limit} comes first)"
        if effort is None:
            is_switched = request.thinking is not None and budget is None
            # A grammar begins with the answer where reasoning is off; template options have a name.
            is_elsewhere = is_constrained(request) or bool(request.template_options)
            if is_switched and not is_elsewhere and not template.knows_thinking:
                yield "thinking (the chat template has no switch for it)"
        elif request.thinking is False or budget == 0:
            if effort is not Effort.NONE:
                yield "effort (reasoning is off)"
        elif template.effort_of(request) is None:
            if budget is not None:
                yield "effort (the thinking budget takes precedence)"
            elif effort not in BUDGET_OF_EFFORT or not self.can_end(request, family):
                yield "effort (this model knows no efforts)"

    def processor(
        self,
        request: GenerationRequest,
        prompt: Prompt,
        family: Family,
        sampler: Sampler,
        *,
        detection: RepetitionDetection | None,
        is_held: bool,
    ) -> BudgetProcessor | None:
        """Return what ends reasoning; None where nothing is to end it, or there is none."""
        budget = self.budget_of(request)
        if (budget is None and detection is None) or request.prompt is not None:
            return None
        if (edges := self._edges(request, family, is_held)) is None:
            return None
        splitter = family.splitter(prompt.beginning)
        count = ReasoningCount(splitter, self._vocabulary, budget, detection)
        eos = self._vocabulary.ends(request.stops)
        return BudgetProcessor(count, edges, len(prompt.tokens), budget, eos, sampler)

    def can_end(self, request: GenerationRequest, family: Family) -> bool:
        """Return whether the reasoning of an answer without a grammar can be ended."""
        return request.prompt is None and self._edges(request, family, is_held=False) is not None

    def _edges(self, request: GenerationRequest, family: Family, is_held: bool) -> Edges | None:
        has_alternatives = is_held or bool(request.tools and request.tool_choice.mode != "none")
        closing, opening = family.reasoning_edges(
            has_alternatives=has_alternatives, is_held=is_held
        )
        if not closing or not opening:
            return None
        before, after = ("", "") if family.has_headers else self._spaces_around(family)
        # A grammar begins right after the tag and decides itself about white space.
        after = "" if is_held else after
        ids = self._ids(closing)
        edges = Edges(
            self._ids(before),
            ids + self._ids(after),
            # The model chooses itself the header after a message of reasoning.
            ids[:1] if family.has_headers else ids,
            self._beginning(opening),
        )
        is_writable = max(edges.before + edges.closing + edges.opening) < self._vocabulary.size
        return edges if is_writable else None

    def _beginning(self, opening: str) -> tuple[int, ...]:
        """Return the first tokens of a tag that show that it opens reasoning.

        After a special token the next one shows it: ``analysis`` after ``<|channel|>``. A tag that
        consists of plain tokens begins like other text, so all its tokens are needed.
        """
        ids = self._ids(opening)
        return ids[:2] if ids[0] in self._vocabulary.special else ids

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(encoded(self._tokenizer, text)) if text else ()

    def _spaces_around(self, family: Family) -> tuple[str, str]:
        if self._spaces is None:
            self._spaces = self._template.spaces_around(family.think_end or "")
        return self._spaces
