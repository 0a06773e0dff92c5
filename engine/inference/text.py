"""A model's text: its chat template and its tokens."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.conversation.normalization import behind_results
from engine.conversation.prompt_parts import RenderedPrompt
from engine.conversation.template import ChatTemplate
from engine.errors import InvalidRequest, PictureUnseen, PromptTooLong
from engine.inference.mlx_lm_internals import has_template_in_code, inner_tokenizer
from engine.library.model_info import ModelInfo
from engine.output.vocabulary import decode_ids
from engine.values.request import PICTURE_MARK, GenerationRequest, Picture
from engine.wording import counted

if TYPE_CHECKING:
    from engine.inference.vision.vision import PlacedPictures, Vision

# Texts of up to this many characters are tokenised as a whole. Longer ones are tokenised in slices
# first, so that a text beyond the context is refused before it takes memory.
_WHOLE = 1_000_000
_SLICE = 100_000
# Put before a template: transformers leaves out a content of None, for which some templates look.
_NULL_CONTENT = (
    "{%- set calling = namespace(messages=[]) -%}{%- for message in messages -%}"
    "{%- set calling.messages = calling.messages + [dict(message, content=none) "
    "if message.tool_calls and not message.content else message] -%}"
    "{%- endfor -%}{%- set messages = calling.messages +%}"
)


def render(
    tokenizer: Any,
    request: GenerationRequest,
    model: ModelInfo,
    template: ChatTemplate | None = None,
    vision: "Vision | None" = None,
) -> tuple[list[int], tuple[str, ...], RenderedPrompt, "PlacedPictures | None"]:
    """Return a request's prompt: its tokens, options without effect, its text and pictures."""
    not_applied = tuple(f"chat_template_kwargs.{name}" for name in request.template_options)
    context, rendered = model.context_length, ""
    _check_size(request, context)
    pictures = [] if vision is None else vision.prepare(request, context)
    texts = [picture.text for picture in pictures]  # prompts are kept for long, and pictures not
    order: Sequence[int] = range(len(pictures))
    if isinstance(request.prompt, str):
        raw = request.prompt
        if vision is not None and pictures:
            expanded = vision.expand(raw.replace(PICTURE_MARK, vision.mark), texts)
            if expanded is None:
                marks = f"{counted(len(pictures), 'picture')}, each as {vision.mark}"
                raise InvalidRequest("prompt", f"has no place for {marks}: write these into it")
            raw = expanded
        tokens = bounded(tokenizer, raw, "prompt", context, adds_special=True)
    elif request.prompt is not None:
        check_ids(request.prompt, "prompt", model.vocabulary_size)
        tokens = list(request.prompt)
    elif request.rendered:
        check_ids(request.rendered, "rendered", model.vocabulary_size)
        tokens = list(request.rendered)
        if pictures and vision is not None:
            template = template or chat_template(tokenizer)
            shown = _as_text(tokenizer, template.render(request, model.id)[0])
            _, order = _with_pictures(vision, texts, template, request, model, shown)
    else:
        if not request.messages:
            raise InvalidRequest("messages", "at least one message is required")
        if not tokenizer.has_chat_template:
            raise InvalidRequest(
                "messages",
                "this model has no chat template; give it one (Chat template in Models, or "
                "--chat-template FILE), or send a raw prompt",
            )
        template = template or chat_template(tokenizer)
        text, not_applied = template.render(request, model.id)
        rendered = _as_text(tokenizer, text)
        if pictures and vision is not None:
            rendered, order = _with_pictures(vision, texts, template, request, model, rendered)
            text = rendered
        tokens = text if isinstance(text, list) else bounded(tokenizer, text, "messages", context)
    tokens = spelled_out(
        tokenizer,
        tokens,
        "messages" if request.prompt is None else "prompt",
        model.vocabulary_size,
    )

    def text_of(request: GenerationRequest) -> str:
        assert template is not None, "it has rendered this request"
        text = _as_text(tokenizer, template.render(request, model.id)[0])
        if not texts or vision is None:
            return text
        return _with_pictures(vision, texts, template, request, model, text)[0]

    prompt_text = RenderedPrompt(rendered, len(tokens), request, text_of)
    if request.begun:
        check_ids(request.begun, "begun", model.vocabulary_size)
        tokens += request.begun
    if not tokens:
        raise InvalidRequest("messages", "the prompt is empty")
    placed = None
    if pictures and vision is not None:
        field = "messages" if request.prompt is None else "prompt"
        placed = vision.locate(tokens, [pictures[index] for index in order])
        if placed is None:
            raise InvalidRequest(field, "contains the model's own token for pictures as text")
        if placed.token_indices[-1][-1] == len(tokens) - 1:  # answers begin behind a token of text
            raise InvalidRequest(field, "ends with a picture; write a text behind it")
    return tokens, not_applied, prompt_text, placed


def _as_text(tokenizer: Any, rendered: str | list[int]) -> str:
    """Return the text of a template; some templates in code make token ids."""
    if isinstance(rendered, str):
        return rendered
    return decode_ids(inner_tokenizer(tokenizer), rendered)


def with_notes(request: GenerationRequest, problem: str) -> GenerationRequest:
    """Return a request for a model that does not see; raises ``PictureUnseen`` without a note."""
    messages = tuple(
        replace(
            message,
            content=_with_notes(message.content, message.pictures, f"messages[{index}]", problem),
            pictures=(),
        )
        if message.pictures
        else message
        for index, message in enumerate(request.messages)
    )
    prompt = request.prompt
    if request.pictures:
        text = prompt if isinstance(prompt, str) else ""
        noted = _with_notes(text, request.pictures, "prompt", problem)
        prompt = noted if isinstance(prompt, str) else prompt
    return replace(request, messages=messages, prompt=prompt, pictures=())


def _with_notes(text: str, pictures: Sequence[Picture], field: str, problem: str) -> str:
    """Return a text with notes in place of its pictures, or before it where it has no marks."""
    for picture in pictures:
        if not picture.note:
            raise PictureUnseen(picture.field or field, problem)
    first, *others = text.split(PICTURE_MARK)
    if len(others) != len(pictures):
        first, others = "", [*[""] * (len(pictures) - 1), text.replace(PICTURE_MARK, "")]
    parts = [first]
    for picture, other in zip(pictures, others, strict=True):
        parts += [picture.note, other]
    return "\n".join(filter(None, parts))


def _with_pictures(
    vision: "Vision",
    texts: Sequence[str],
    template: ChatTemplate,
    request: GenerationRequest,
    model: ModelInfo,
    rendered: str,
) -> tuple[str, list[int]]:
    """Return a rendered prompt with the texts of its pictures, and the order of these in it."""
    order = template.picture_order(request)
    text = vision.expand(rendered, [texts[index] for index in order])
    if text is None:  # few templates show a picture that a tool has returned
        moved = replace(request, messages=tuple(behind_results(request.messages)))
        again, _ = template.render(moved, model.id)
        order = template.picture_order(moved)
        text = vision.expand(str(again), [texts[index] for index in order])
    if text is None:
        raise InvalidRequest(
            "messages",
            "the model's chat template shows not all of their pictures, or a text contains the "
            "model's own mark of a picture; leave that out",
        )
    return text, order


def spelled_out(tokenizer: Any, ids: list[int], field: str, size: int) -> list[int]:
    """Return ids with tokens that the model lacks, as in Gemma 3, as plain text."""
    if max(ids, default=0) < size:
        return ids
    known: list[int] = []
    for token_id in ids:
        if token_id < size:
            known.append(token_id)
            continue
        text = str(inner_tokenizer(tokenizer).convert_ids_to_tokens(token_id))[:200]
        parts = encoded(tokenizer, text[:1]) + encoded(tokenizer, text[1:])
        if max(parts, default=size) >= size:
            raise InvalidRequest(
                field,
                f"contains {text!r}, token {token_id} of the tokenizer; the model's "
                f"ids end at {size - 1}. Leave it out",
            )
        known += parts
    return known


def predicted(tokenizer: Any, text: str | None, model: ModelInfo) -> list[int]:
    """Return the ids of a text that an answer is expected to repeat; empty without a text."""
    context = model.context_length
    ids: list[int] = []
    for start in range(0, len(text or ""), _SLICE):
        if len(ids) >= context or text is None:
            break
        ids += encoded(tokenizer, text[start : start + _SLICE])
    return spelled_out(tokenizer, ids[:context], "prediction", model.vocabulary_size)


def turn_end(tokens: Sequence[int], ends: Container[int]) -> int:
    """Return the number of tokens up to the end of a prompt's last turn, if only a header follows.

    The next turn's prompt often does not repeat the header, such as the mark of an answer without
    reasoning. Returns 0 where no such end is near.
    """
    # The longest header of an answer, between the end of a prompt's last turn and the answer.
    first = max(0, len(tokens) - 64)
    ends_at = (at + 1 for at in range(len(tokens) - 2, first, -1) if tokens[at] in ends)
    return next(ends_at, 0)


def encoded(tokenizer: Any, text: str, *, adds_special: bool = False) -> list[int]:
    """Return the ids of a text."""
    inner = inner_tokenizer(tokenizer)
    if _is_plain(inner):
        # The same result as transformers gives, but this one call lets other threads run meanwhile.
        [encoding] = inner.backend_tokenizer.encode_batch_fast(
            [text], add_special_tokens=adds_special
        )
        return list(encoding.ids)
    return list(tokenizer.encode(text, add_special_tokens=adds_special))


def _is_plain(inner: Any) -> bool:
    kind = type(inner)
    names = [getattr(kind, name, None) for name in ("encode", "_encode_plus")]
    owners = {getattr(method, "__qualname__", "").partition(".")[0] for method in names}
    return owners <= {"PreTrainedTokenizerBase", "PreTrainedTokenizerFast", "TokenizersBackend"}


def _check_size(request: GenerationRequest, context: int) -> None:
    """Refuse a prompt that cannot fit, however it is tokenised."""
    prompt = request.prompt
    if isinstance(prompt, tuple) and len(prompt) + request.min_answer_tokens > context:
        raise PromptTooLong("prompt", len(prompt), context)
    if len(request.messages) >= context:  # each needs at least one token for its role
        raise PromptTooLong("messages", len(request.messages), context)


def bounded(
    tokenizer: Any, text: str, field: str, context: int, *, adds_special: bool = False
) -> list[int]:
    """Return the ids of a text; raises ``PromptTooLong`` before a huge one takes memory."""
    if len(text) > _WHOLE:
        min_tokens = 0
        for start in range(0, len(text), _SLICE):
            # Cutting a word may add some tokens.
            min_tokens += max(0, len(encoded(tokenizer, text[start : start + _SLICE])) - 16)
            if min_tokens >= context:
                raise PromptTooLong(field, min_tokens, context)
    return encoded(tokenizer, text, adds_special=adds_special)


def plain(tokenizer: Any, text: str, model: ModelInfo) -> list[int]:
    """Return the ids of a text, no special ones added."""
    ids = bounded(tokenizer, text, "prompt", model.context_length)
    return spelled_out(tokenizer, ids, "prompt", model.vocabulary_size)


def embedding_tokens(
    tokenizer: Any,
    text: str | tuple[int, ...],
    field: str,
    model: ModelInfo,
    *,
    truncates: bool,
) -> list[int]:
    """Return the ids of a text that becomes a vector, with the tokenizer's first and last."""
    context, longest = model.context_length, model.longest_token_bytes
    if isinstance(text, tuple):
        check_ids(text, field, model.vocabulary_size)
        tokens, last = list(text), 0
    else:
        if truncates and longest is not None:
            text = text[: context * longest]
        # One empty text among many does not fail the batch; a space stands for it.
        tokens = bounded(tokenizer, text or " ", field, context, adds_special=True)
        tokens = spelled_out(tokenizer, tokens, field, model.vocabulary_size)
        last = _added_after(tokenizer)
    if not tokens:
        raise InvalidRequest(field, "the text has no tokens")
    if len(tokens) > context:
        if not truncates:
            raise PromptTooLong(field, len(tokens), context)
        tokens = [*tokens[: context - last], *tokens[len(tokens) - last :]]
    return tokens


def _added_after(tokenizer: Any) -> int:
    """Return how many tokens a tokenizer adds after a text."""
    plain_ids = encoded(tokenizer, "a")
    whole = encoded(tokenizer, "a", adds_special=True)
    for start in range(len(whole) - len(plain_ids) + 1):
        if whole[start : start + len(plain_ids)] == plain_ids:
            return len(whole) - start - len(plain_ids)
    return 0


def check_ids(ids: Sequence[int], field: str, size: int) -> None:
    """Make sure that ids are in a vocabulary of ``size``."""
    for index, token_id in enumerate(ids):
        if not 0 <= token_id < size:
            raise InvalidRequest(
                f"{field}[{index}]", f"token id {token_id} is outside the vocabulary of {size}"
            )


def chat_template(tokenizer: Any, call_marks: tuple[str, str] = ("", "")) -> ChatTemplate:
    """Return a tokenizer's template; ``call_marks`` stand around a call in JSON."""
    inner = inner_tokenizer(tokenizer)
    is_code = has_template_in_code(tokenizer)

    def apply(
        messages: Sequence[Mapping[str, Any]], *, has_null_content: bool, **options: Any
    ) -> Any:
        if has_null_content:
            used = inner.get_chat_template(tools=options.get("tools"))
            options["chat_template"] = _NULL_CONTENT + used
        if _is_plain(inner):
            options["tokenize"] = False
        # A tokenizer with a method of its own may spell the switch of reasoning differently, which
        # the wrapper knows. The wrapper switches reasoning on where a request leaves it open.
        if is_code or (not _is_plain(inner) and "enable_thinking" in options):
            return tokenizer.apply_chat_template(messages, **options)
        return inner.apply_chat_template(messages, return_dict=False, **options)

    source = getattr(inner, "chat_template", None) or ""
    sources = list(source.values()) if isinstance(source, Mapping) else [str(source)]
    return ChatTemplate(apply, [] if is_code else sources, call_marks)
