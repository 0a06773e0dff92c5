"""A loaded model: its text, its constraints, its samplers, and its running batch.

Belongs to the engine thread, because MLX streams belong to the thread that made them; methods that
other threads may call say so. ``engine.inference.batch`` decodes the rows together;
``engine.inference.mlx_loading`` loads the model.
"""

import contextlib
import functools
import logging
import math
from collections import abc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import mlx.core as mx

from engine.conversation.template import with_described_tools
from engine.conversation.template_check import TemplateReport, check_template
from engine.errors import InvalidRequest
from engine.generation import Generation
from engine.grammar.compilation import is_panic
from engine.grammar.grammar_compiler import GrammarCompiler
from engine.grammar.grammars import may_call
from engine.grammar.masks import CompiledGrammar, TokenConstraint
from engine.inference import sampling
from engine.inference.backend import Prompt
from engine.inference.batch import RunningBatch
from engine.inference.embedding import EmbeddingPass, TextsPass, pooling_of
from engine.inference.mlx_lm_internals import has_template_in_code, inner_tokenizer, tool_format
from engine.inference.ranking import RankingPass, answer_ids, ranking_prompts
from engine.inference.sampling import PromptScorer
from engine.inference.sequence import Sequence
from engine.inference.speculation.draft_model import DraftModel, ModelDrafts
from engine.inference.speculation.head_drafts import HeadDrafts
from engine.inference.speculation.sources import DraftSource, GrammarDrafts, NgramDrafts
from engine.inference.text import (
    chat_template,
    check_ids,
    embedding_tokens,
    encoded,
    plain,
    predicted,
    render,
    turn_end,
    with_notes,
)
from engine.inference.thinking_budget import ThinkingBudgets
from engine.inference.weights import BaseWeights
from engine.library.model_info import ModelInfo
from engine.output.channels import Beginning, continues_text
from engine.output.detokenizer import ByteDetokenizer, Detokenizer, TokenizerDetokenizer
from engine.output.families import Family, family_of, with_json_calls
from engine.output.tool_calls.call_text import NewReader
from engine.output.tool_calls.calls import readers
from engine.output.tool_calls.formats import CALL_FORMATS, JSON_CALLS
from engine.output.vocabulary import Vocabulary, decode_ids
from engine.stopping.record import Channel
from engine.stopping.repetition import RepetitionScope
from engine.values.embedding import EmbeddingRequest
from engine.values.events import CacheMiss
from engine.values.no_effect import overruled_options
from engine.values.ranking import RankingRequest
from engine.values.request import GenerationRequest, Sampling
from engine.values.tokens import TokenOrigin, TokenStats

_log = logging.getLogger(__name__)


def _without_data(request: GenerationRequest) -> GenerationRequest:
    """Return a request without the files of its pictures and its prediction, to be kept."""
    emptied = request.with_pictures(lambda picture: replace(picture, data=b""))
    return replace(emptied, prediction=None)


class MlxBackend:
    """One loaded model."""

    def __init__(
        self,
        tokenizer: Any,
        info: ModelInfo,
        vocabulary: Vocabulary,
        batch: RunningBatch,
        draft: DraftModel | None = None,
        base_weights: BaseWeights | None = None,
    ) -> None:
        longest = max(map(len, vocabulary.raw or ()), default=None)
        self.vocabulary = vocabulary
        self._tokenizer = tokenizer
        call_style = tool_format(tokenizer)
        if call_style and call_style not in CALL_FORMATS:
            _log.warning(
                "%s writes its tool calls as mlx-lm's parser %s reads them, which Fullstop does "
                "not know: its calls are text",
                info.id,
                call_style,
            )
            call_style = ""
        self.family = family = family_of(tokenizer, vocabulary, call_style)
        is_known = bool(family.call_style or family.has_headers)
        can_call = is_known and (info.can_call_tools or info.takes_tools)
        # mlx-lm knows reasoning between tags only; gpt-oss's is a message.
        can_think = info.can_think or family.has_headers
        self.info = replace(
            info, longest_token_bytes=longest, can_call_tools=can_call, can_think=can_think
        )
        start, end = family.call_tags if family.call_style == JSON_CALLS else ("", "")
        self._template = chat_template(tokenizer, (start or "", end or ""))
        self._shows_tools = is_known and (
            has_template_in_code(tokenizer) or "tools" in self._template.variables
        )
        self._forms = GrammarCompiler(
            inner_tokenizer(tokenizer),
            vocabulary,
            family,
            family if is_known else with_json_calls(family, vocabulary),
        )
        self._budgets = ThinkingBudgets(tokenizer, vocabulary, self._template)
        self._eos = sorted(vocabulary.eos)
        self.batch = batch
        self.draft = draft
        self.base_weights = base_weights  # alive as long as it is in memory

    def render(self, request: GenerationRequest) -> Prompt:
        """Template and tokenise, on any thread; raises ``InvalidRequest``."""
        if self.batch.vision is None:
            request = with_notes(request, self.info.vision_problem)
        family, shows_tools = self._family_of(request), self._shows_tools

        def with_shown_tools(request: GenerationRequest) -> GenerationRequest:
            if request.tool_choice.mode == "none":
                return replace(request, tools=())
            if request.tool_choice.mode == "required" and not shows_tools:
                return with_described_tools(request, family.call_style)
            return request

        shown = with_shown_tools(request)
        with self._translate_panics("messages" if request.prompt is None else "prompt"):
            tokens, unknown, rendered, pictures = render(
                self._tokenizer, shown, self.info, self._template, self.batch.vision
            )
        keys = tokens if pictures is None else pictures.keys
        render_shown = rendered.render
        prediction = predicted(self._tokenizer, request.prediction, self.info)
        owner = request.cache_owner
        beginning = Beginning()
        if request.prompt is None:
            beginning = family.beginning(shown, tokens, self.vocabulary)
        is_on_disk = self.batch.prompt_cache.is_on_disk(owner, keys)
        rendered = replace(
            rendered,
            request=_without_data(request),
            render=lambda marked: render_shown(with_shown_tools(marked)),
            thinks=beginning.channel is Channel.THINKING,
        )
        recent = self.batch.prompt_cache.recent
        difference = recent.difference(owner.name, keys, rendered, self._text_of_keys)
        not_applied = (
            *unknown,
            *self._budgets.unused_options(request, family),
            *overruled_options(request, self._with_own_settings(request.sampling)),
        )
        is_users = self.info.user_template is not None and bool(rendered.text)
        return Prompt(
            tokens,
            beginning,
            prediction,
            is_on_disk,
            not_applied,
            rendered,
            difference,
            is_users,
            pictures,
        )

    def _text_of_keys(self, keys: list[int]) -> str:
        vision = self.batch.vision
        ids = keys if vision is None else vision.ids_of(keys)
        return decode_ids(inner_tokenizer(self._tokenizer), ids)

    def check_template(self) -> TemplateReport | None:
        return check_template(self._template) if self._tokenizer.has_chat_template else None

    def check_request(self, request: GenerationRequest) -> None:
        self._forms.check(request)

    def form(self, request: GenerationRequest) -> CompiledGrammar:
        """Compile the grammar of an answer; raises ``InvalidRequest``. Not the engine thread."""
        return self._forms.prepare(request)

    def answer_format(self, request: GenerationRequest, prompt: Prompt) -> Family:
        """Return the family with the tags of the answer; raises ``InvalidRequest``."""
        return self._forms.answer_family(request, prompt.tokens, thinks=prompt.thinks)

    def _family_of(self, request: GenerationRequest) -> Family:
        family = self._forms.family_of(request)
        return family if may_call(request) else family.with_tags(thinking=True, tools=False)

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of plain text, on any thread; raises ``PromptTooLong``."""
        with self._translate_panics("prompt"):
            return plain(self._tokenizer, text, self.info)

    @contextlib.contextmanager
    def _translate_panics(self, field: str) -> Iterator[None]:
        """Refuse a text at which the tokenizer's library panics, as some regular expressions do."""
        try:
            yield
        except BaseException as error:
            if not is_panic(error):
                raise
            reason = f"the tokenizer of {self.info.id} cannot read this text"
            raise InvalidRequest(field, reason) from error

    def detokenize(self, ids: abc.Sequence[int]) -> str:
        """Return the text of ids, on any thread; raises ``InvalidRequest`` for other ids."""
        check_ids(ids, "tokens", self.vocabulary.id_count)
        return decode_ids(inner_tokenizer(self._tokenizer), list(ids))

    def vocabulary_of(self, request: GenerationRequest, beginning: Beginning) -> Vocabulary:
        if request.prompt is not None:
            return self._showing_specials
        return self._continuing if continues_text(request, beginning) else self.vocabulary

    @functools.cached_property
    def _showing_specials(self) -> Vocabulary:
        """The vocabulary of a plain-text answer, tags and markers included."""
        return self._continuing.showing_specials()

    @functools.cached_property
    def _continuing(self) -> Vocabulary:
        """The vocabulary of an answer that continues a text, so that its first space is kept."""
        return replace(self.vocabulary, strips_first_space=False)

    def detokenizer(self, vocabulary: Vocabulary, before: abc.Sequence[int] = ()) -> Detokenizer:
        """Return a fresh streaming detokenizer for an answer that continues the ids ``before``."""
        if vocabulary.raw is not None:
            return ByteDetokenizer(vocabulary)
        return TokenizerDetokenizer(inner_tokenizer(self._tokenizer), vocabulary.special, before)

    def call_readers(self, request: GenerationRequest) -> NewReader:
        family = self._forms.family_of(request)
        return readers(family.call_style, request.tools, family.call_tags)

    def can_end_reasoning(self, request: GenerationRequest, family: Family) -> bool:
        return self._budgets.can_end(request, family)

    def _with_own_settings(self, requested: Sampling) -> Sampling:
        return sampling.with_defaults(requested, dict(self.info.own_settings))

    def join(self, sequence: Sequence, generation: Generation, prompt: Prompt) -> None:
        """Add an accepted request to the batch, with its sampler, constraint and drafts."""
        request = generation.request
        params = self._with_own_settings(request.sampling)
        if request.tool_choice.mode == "none":
            params = replace(params, logit_bias=(*params.logit_bias, *self._no_calls()))
        processors = sampling.processors(params, len(prompt.tokens))
        grammar = generation.grammar
        constraint = self._forms.constrain(request, prompt.tokens, grammar, thinks=prompt.thinks)
        if constraint is not None:  # last, so that no other processor allows more tokens
            processors.append(sampling.ConstraintProcessor(constraint, len(prompt.tokens)))
        is_watched = generation.setting.repetition is not RepetitionScope.NOTHING
        detection = request.stops.repetition if is_watched else None
        sampler = sampling.sampler(
            params,
            self.info.vocabulary_size,
            # As in mlx-lm, XTC never excludes line ends and the end of an answer.
            exempt=(*encoded(self._tokenizer, "\n"), *self._eos) if params.xtc_probability else (),
            is_drawn_ahead=self._budgets.budget_of(request) is not None or detection is not None,
        )
        budget = self._budgets.processor(
            request,
            prompt,
            generation.setting.family,
            sampler,
            detection=detection,
            is_held=constraint is not None,
        )
        if budget is not None:  # after all others: it forces tokens, whatever they allow
            processors.append(budget)
        if request.fork is not None:  # its tokens are given, whatever the others force
            processors.append(sampling.ForkProcessor(request.fork.tokens, len(prompt.tokens)))
        sequence.turn_end = turn_end(prompt.tokens, self._eos)
        if prompt.pictures is not None:  # several answers to a prompt read it at different times
            sequence.pictures = replace(prompt.pictures)
        sequence.sampler, sequence.processors = sampler, processors
        sequence.constraint, sequence.thinking_budget = constraint, budget
        if (scoring := request.prompt_scoring) is not None:
            sequence.scorer = PromptScorer(prompt.tokens, scoring, self.info.vocabulary_size)
        sequence.sources, sequence.draft = self._draft_sources(prompt, request, constraint)
        try:
            self.batch.insert(sequence)
        except BaseException:
            if sequence.draft is not None:  # it counts the answers that it drafts for
                sequence.draft.abandon()
            raise
        if prompt.is_on_disk and not sequence.cached:
            sequence.cache_miss = CacheMiss.ON_DISK

    def _draft_sources(
        self, prompt: Prompt, request: GenerationRequest, constraint: TokenConstraint | None
    ) -> tuple[list[DraftSource], ModelDrafts | None]:
        """Return all sources of drafts for an answer, and the draft model's one among them."""
        if not self.batch.can_draft or request.max_tokens == 0:
            return [], None
        sources = self.sources(prompt, request)
        if constraint is not None:
            sources.append(GrammarDrafts(constraint.fork()))
        if self.batch.own_head is not None and self.draft is None:
            sources.append(HeadDrafts(self.batch.own_head))
        allowed = frozenset(TokenOrigin) if request.drafts is None else request.drafts
        sources = [source for source in sources if source.origin in allowed]
        owner, draft = request.cache_owner.name, None
        if self.draft is not None and TokenOrigin.DRAFT in allowed:
            draft = self.draft.drafts(owner, prompt.tokens)
        if draft is not None:
            sources.append(draft)
        return sources, draft

    def sources(self, prompt: Prompt, request: GenerationRequest) -> list[DraftSource]:
        # Keys of pictures are no ids of the model: a draft ends before them.
        sources: list[DraftSource] = [NgramDrafts(prompt.keys)]
        if prompt.prediction:
            sources.append(NgramDrafts(prompt.prediction, TokenOrigin.PREDICTION))
        if request.fork is not None:
            sources.append(NgramDrafts(request.fork.tokens, TokenOrigin.FORCED))
        return sources

    def _no_calls(self) -> list[tuple[int, float]]:
        """Return the bias that keeps the model from opening a tool call by a tag of one token."""
        start = self.family.id_of(self.family.call_tags[0])
        if start is None or start >= self.vocabulary.size:
            return []
        return [(start, -math.inf)]

    def text_tokens(self, request: EmbeddingRequest | RankingRequest) -> list[list[int]]:
        """Return the tokens of texts that become vectors or scores; raises ``InvalidRequest``."""
        if isinstance(request, RankingRequest):
            return ranking_prompts(self._tokenizer, request, self.info)
        return [
            embedding_tokens(
                self._tokenizer,
                text,
                f"inputs[{index}]",
                self.info,
                truncates=request.truncates,
            )
            for index, text in enumerate(request.inputs)
        ]

    def texts_pass(
        self,
        request: EmbeddingRequest | RankingRequest,
        texts: abc.Sequence[abc.Sequence[int]],
        max_tokens: int,
    ) -> TextsPass:
        """Return the pass that ``batch.read_texts`` reads; raises ``InvalidRequest``."""
        if self.batch.is_shared:
            reason = "a model that several processes share makes neither vectors nor scores"
            raise InvalidRequest("model", reason)
        longest = max(map(len, texts))
        if longest > max_tokens:
            raise InvalidRequest(
                f"{request.field}[{[len(text) for text in texts].index(longest)}]",
                f"the text has {longest:,} tokens, and there is memory for {max_tokens:,}; "
                "shorten it",
            )
        info = self.info
        if isinstance(request, RankingRequest):
            answers = answer_ids(self._tokenizer, info)
            return RankingPass(texts, answers, info.vocabulary_size, info.id)
        pooling = pooling_of(info.model_folder, info.id)
        return EmbeddingPass(texts, pooling, info.vocabulary_size, info.id, request.dimensions)

    def stats(self, sampled: abc.Sequence[tuple[int, Any]], count: int) -> list[TokenStats]:
        """Return the likelihoods of a step's tokens, and of the ``count`` likeliest."""
        # On a separate stream: the next step already runs on the batch's stream, and waiting for it
        # would keep device and Python from working at the same time.
        with mx.stream(_stats_stream()):
            return sampling.token_stats(sampled, self._eos, count)

    def forget_prompts(self, owner: str) -> tuple[int, int]:
        if self.draft is not None:
            self.draft.forget_prompts(owner)
        return self.batch.forget_prompts(owner)

    def close(self) -> None:
        self.batch.close()
        if self.draft is not None:
            self.draft.close()


@functools.cache
def _stats_stream() -> Any:
    """Return the stream for likelihoods: one for all models, because each stream keeps a thread."""
    return mx.new_thread_local_stream(mx.default_device())
