"""What a caller asks of the engine, in its own terms: an answer or vectors, within its limits.

Messages are plain text, without a vendor's block types. Pure values; any thread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Literal

from engine.stopping.rules import StopRules
from engine.values.tokens import PromptScoring, TokenOrigin, TokenStats

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made; its arguments are the text of one JSON object."""

    id: str
    name: str
    arguments: str


PICTURE_MARK = "\ufdd0"
"""Stands in the content of a message for its next picture: a code point that no text contains."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a message.

    Attributes:
        data: The bytes of a PNG, JPEG, WebP or GIF file.
        is_small: Whether it is read at a low resolution.
        field: Its place in the client's request, for errors.
        note: What stands for it where the model does not see; without a note, that is an error.
    """

    data: bytes = field(repr=False)
    is_small: bool = False
    field: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; a tool's turn has the id of its call and, if known, its name.

    ``pictures`` are in the order of the marks in its content.
    """

    role: Role
    content: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    pictures: tuple[Picture, ...] = ()

    @property
    def text(self) -> str:
        return self.content.replace(PICTURE_MARK, "")


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; its parameters are the JSON schema of an object.

    Where it is deferred, a message describes it, and the template's list of tools must not.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_deferred: bool = False


@dataclass(frozen=True, slots=True)
class SamplingOption:
    """A field of ``SamplingOptions``, for code that offers all of them."""

    title: str
    help: str
    min: float
    max: float
    step: float
    unset: str = "Model default"
    name: str = ""

    @property
    def is_whole(self) -> bool:
        return self.step == 1


def _option(*args: Any, **others: Any) -> Any:
    return field(default=None, metadata={"option": SamplingOption(*args, **others)})


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """The settings for drawing tokens that a conversation offers.

    A conversation's settings and the window's controls are made from these fields. None means the
    model's own default.

    Attributes:
        temperature: 0 is greedy; otherwise the divisor of the logits, up to 2 in most APIs.
        top_p: Nucleus mass in (0, 1].
        top_k: Number of candidates; 0 switches it off.
        min_p: Least probability relative to the most likely token, in [0, 1].
        repetition_penalty: Multiplicative, 1 is off.
        seed: Makes the draws repeatable; None gives other draws each time.
    """

    temperature: float | None = _option("Temperature", "", 0, 2, 0.05)
    top_p: float | None = _option(
        "Top p", "sample from the tokens that make up this share of the probability", 0, 1, 0.05
    )
    top_k: int | None = _option(
        "Top k", "sample from this many of the likeliest tokens; 0 for all", 0, 100_000, 1
    )
    min_p: float | None = _option(
        "Min p", "minimum probability of a token, relative to the likeliest one", 0, 1, 0.01
    )
    repetition_penalty: float | None = _option("Repetition penalty", "1 means none", 0, 3, 0.05)
    # Up to the greatest whole number that a field of floating-point numbers shows exactly.
    seed: int | None = _option("Seed", "makes answers repeatable", 0, 2**53, 1, unset="Random")


SAMPLING_OPTIONS = tuple(
    replace(field_.metadata["option"], name=field_.name) for field_ in fields(SamplingOptions)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(SamplingOptions):
    """All settings for drawing tokens.

    Attributes:
        presence_penalty: Additive once a token has occurred, 0 is off.
        frequency_penalty: Additive per occurrence, 0 is off.
        logit_bias: Token id to additive bias, as pairs.
        xtc_probability: How often the likeliest tokens are excluded (XTC), in [0, 1]; 0 is off.
        xtc_threshold: Probability above which a token is one of those; the least likely of them
            stays. 0.1 unless set, as in mlx-lm.
    """

    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    xtc_probability: float | None = None
    xtc_threshold: float | None = None


class Effort(StrEnum):
    """How much a model that can reason should reason, ascending; templates know some of these."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class TraceLevel(StrEnum):
    """How much a run reports about each token: nothing, what stops did with it, or everything."""

    OFF = "off"
    STOPS = "stops"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class TextForm:
    """A form of the answer's text other than JSON: exactly one of the attributes is given.

    Attributes:
        regex: A regular expression that the whole text matches, in the syntax of Rust's crate
            ``regex`` (https://docs.rs/regex/latest/regex/#syntax): no look-around, no references.
        choices: The text is one of these.
        grammar: A grammar in llguidance's Lark dialect or llama.cpp's GBNF.
    """

    regex: str | None = None
    choices: tuple[str, ...] = ()
    grammar: str | None = None


@dataclass(frozen=True, slots=True)
class OutputConstraint:
    """The form that the answer's text must have, whatever the model prefers.

    Reasoning before the answer stays free.

    Attributes:
        json_schema: The JSON schema of the answer; None asks for any JSON object.
        text_form: Instead of JSON, another form of text.
        is_strict: Whether a schema of which a part cannot be enforced is refused. If not, the parts
            are named in ``Generation.not_applied``.
    """

    json_schema: Mapping[str, Any] | None = None
    text_form: TextForm | None = None
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the model may, must or must not call a tool.

    Attributes:
        mode: ``auto`` lets the model decide, ``none`` hides the tools from it, ``required`` makes
            the answer a tool call with valid arguments.
        name: With ``required``, the only tool that may be called; None means any of them.
    """

    mode: Literal["auto", "none", "required"] = "auto"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class CacheOwner:
    """Whose request it is. Caches of prompts are neither counted nor used for another owner.

    The name is that of the person at this computer, the holder of an API key, or all clients
    without a key. ``kept_with`` is what the caches on disk are deleted with, such as the id of a
    conversation; None leaves nothing on disk, and uses nothing of it.
    """

    name: str
    kept_with: str | None = None


LOCAL_OWNER = CacheOwner("the person")


class LimitSource(StrEnum):
    """Who set a limit of an answer.

    Attributes:
        TOOL: The client is a coding tool, which sets limits that its user did not choose.
        SETTINGS: The settings of a conversation.
        PRESET: The preset from which a conversation has this setting.
        COMMAND: An option of ``ask``, ``run`` or ``chat``.
        SERVER: The server's own default, an option of ``serve``.
        API: The default of the API that was called.
        MODEL: The model's files.
    """

    REQUEST = "request"
    TOOL = "tool"
    SETTINGS = "settings"
    PRESET = "preset"
    COMMAND = "command"
    SERVER = "server"
    API = "api"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Fork:
    """Where an answer leaves an earlier one.

    Attributes:
        tokens: Token ids with which the answer begins, whatever the model prefers: those of the
            earlier answer before ``token_index``, then the chosen ones. They count as generated.
        token_index: Index of the replaced token, from 0 over the generated tokens.
        replaced: The id of the replaced token.
        replaced_text: Its text.
        stats: How likely the first of ``tokens`` were in the earlier answer, as far as it is known.
    """

    tokens: tuple[int, ...]
    token_index: int
    replaced: int
    replaced_text: str = ""
    stats: tuple[TokenStats | None, ...] = ()

    @property
    def chosen(self) -> tuple[int, ...]:
        return self.tokens[self.token_index :]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One answer to be generated.

    Attributes:
        max_tokens: Most tokens to sample; None means until the context is full. It may be larger
            than the context. With 0 the prompt is read, and nothing is generated.
        max_tokens_from: Who set ``max_tokens``, as ``thinking_budget_from`` for the budget.
        preset: The name of the preset, where one set them.
        thinking: True or False switches reasoning where the template knows how; None leaves
            the template's own default.
        thinking_budget: Most tokens of reasoning, without its tags; then its end is forced and the
            answer continues. None for no limit. Has no effect on a model that cannot reason.
        effort: How much to reason, if the template knows efforts; otherwise it becomes a budget.
        top_logprobs: Number of the most likely tokens in each full trace, at most 20.
        prompt: Instead of messages, text or token ids to continue directly, without a template.
        pictures: Those of a prompt that is text, in which the model's own marks stand for them.
        allows_more_keys: Whether objects of a constrained answer, or of a required call, may have
            keys that their schema neither names nor rules out, as JSON Schema allows. If not, they
            have only the named ones: an unsure model could otherwise add keys without end.
        cache_owner: The owner of the caches of prompts that the answer uses and leaves.
        prediction: Text that the answer probably repeats for the most part. It makes the answer
            faster where it is right, and never changes it.
        drafts: The sources that may draft its tokens, none if empty; None for all that apply. The
            answer is the same.
        opens_answer: Whether the prompt ends with the tokens that open the answer; only prompts
            that are counted or shown may be without them.
        continues_last: Whether a last message of the assistant is the beginning of the answer; if
            not, it is complete, and a new turn follows it.
        begun: Token ids with which the answer begins, after the messages: it goes on from exactly
            these tokens, which are no part of the generated ones.
        fork: The earlier answer whose beginning this one repeats; None for none.
        rendered: The token ids of the rendered messages, where they are known; the chat template is
            not applied again, and so neither its date nor its version matters.
        model: The name of one of several models; None for the default one. If only one model is
            served, it answers whatever the name is.
        template_options: Options of the chat template by their names, as vLLM's
            ``chat_template_kwargs``; unknown ones have no effect and are named in
            ``Generation.not_applied``.
        not_applied: Parts of the client's request that its reader left out, each named as the
            client spelled it, such as ``messages[3].content[0] (server_tool_use)``.
    """

    messages: tuple[Message, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    stops: StopRules = field(default_factory=StopRules)
    max_tokens: int | None = None
    max_tokens_from: LimitSource = LimitSource.REQUEST
    tools: tuple[Tool, ...] = ()
    thinking: bool | None = None
    thinking_budget: int | None = None
    thinking_budget_from: LimitSource = LimitSource.REQUEST
    preset: str = ""
    effort: Effort | None = None
    trace: TraceLevel = TraceLevel.OFF
    top_logprobs: int = 5
    prompt: str | tuple[int, ...] | None = None
    pictures: tuple[Picture, ...] = ()
    constraint: OutputConstraint | None = None
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    allows_more_keys: bool = False
    cache_owner: CacheOwner = LOCAL_OWNER
    prediction: str | None = None
    drafts: frozenset[TokenOrigin] | None = None
    opens_answer: bool = True
    continues_last: bool = True
    begun: tuple[int, ...] = ()
    fork: Fork | None = None
    rendered: tuple[int, ...] = ()
    prompt_scoring: PromptScoring | None = None
    model: str | None = None
    template_options: Mapping[str, Any] = field(default_factory=dict)
    not_applied: tuple[str, ...] = ()

    @property
    def continues_message(self) -> bool:
        """Whether the answer continues the last message: an assistant's, whose calls end it."""
        if not self.messages or not self.continues_last:
            return False
        last = self.messages[-1]
        return last.role == "assistant" and not last.tool_calls

    @property
    def continues_answer(self) -> bool:
        """Whether the answer goes on from a beginning that is given as text or as tokens."""
        return self.continues_message or bool(self.begun)

    @property
    def all_pictures(self) -> tuple[Picture, ...]:
        """Those of a raw prompt, and those of the messages."""
        return *self.pictures, *(each for message in self.messages for each in message.pictures)

    def with_pictures(self, change: Callable[[Picture], Picture]) -> "GenerationRequest":
        """Return a request whose pictures are changed by ``change``."""
        messages = tuple(
            replace(message, pictures=tuple(map(change, message.pictures)))
            if message.pictures
            else message
            for message in self.messages
        )
        return replace(self, messages=messages, pictures=tuple(map(change, self.pictures)))

    @property
    def prompt_key(self) -> tuple[int, int, object]:
        """The same value for the choices of one prompt, which share its messages and pictures."""
        return id(self.messages), id(self.pictures), self.prompt

    @property
    def min_answer_tokens(self) -> int:
        """How many tokens the context must have room for beside the prompt."""
        return 0 if self.max_tokens == 0 else 1
