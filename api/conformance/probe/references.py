"""Where each rule of each API is written down.

Pure; any thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from api.conformance.captures.values import WireDialect

# References to vendors' documentation, and their topics.


class Topic(StrEnum):
    """The topic of a reference."""

    STOPS = "stops"
    MATCHED = "the stop that matched"
    REASON = "the reason"
    LIMIT = "the limit"
    USAGE = "usage"
    STREAM = "streams"
    FORM = "the fields of an answer"
    ERRORS = "errors"
    THINKING = "thinking"
    TOKEN_IDS = "stop token ids"
    CHOICES = "several choices"
    TOOLS = "tool calls"
    STRUCTURED = "structured output"
    LOGPROBS = "logprobs"
    NO_STOPS = "requests without stops"
    ONE_STOP = "one stop without a list"
    NEW_LIMIT = "the limit's newer name"
    USAGE_CHUNK = "the counts of streams"
    PACE = "the pace of streams"
    TYPES = "wrong types"
    HTTP = "answers to requests"
    DEFAULT = "requests that do not say stream"
    PARTS = "prompts in parts"
    NULLS = "fields that are null"
    ECHO = "the prompt before the answer"
    PROMPTS = "several prompts"
    SEED = "seeds"


@dataclass(frozen=True, slots=True)
class Reference:
    """A place in a vendor's documentation."""

    address: str
    sentence: str


# What each vendor's reference says, in our words, with its address.
#
# A rule that is not in a dialect's reference is an extension.

# What every dialect rests on.
_HTTP = {
    Topic.HTTP: Reference(
        "https://www.rfc-editor.org/rfc/rfc9110#section-3.4",
        "A server answers each request with a response that has a status code.",
    ),
}

_CLAUDE = "https://docs.claude.com/en"
_OPENAI = "https://platform.openai.com/docs"
_SGLANG = "https://docs.sglang.ai/basic_usage"
_OLLAMA = "https://github.com/ollama/ollama/blob/main/docs"

_MESSAGES = {
    Topic.STOPS: Reference(
        f"{_CLAUDE}/api/messages",
        "The model stops generating when it produces one of stop_sequences.",
    ),
    Topic.NO_STOPS: Reference(
        f"{_CLAUDE}/api/messages",
        "stop_sequences is optional: normally the model stops at the natural end of its turn.",
    ),
    Topic.PARTS: Reference(
        f"{_CLAUDE}/api/messages", "The content of a message is a string or an array of blocks."
    ),
    Topic.PACE: Reference(
        f"{_CLAUDE}/docs/build-with-claude/streaming",
        "With stream the answer is sent incrementally.",
    ),
    Topic.TYPES: Reference(
        f"{_CLAUDE}/api/errors",
        "400 invalid_request_error says that the format or content of a request is wrong.",
    ),
    Topic.MATCHED: Reference(
        f"{_CLAUDE}/api/messages",
        "stop_sequence holds the custom sequence that was generated, and is null without one.",
    ),
    Topic.REASON: Reference(
        f"{_CLAUDE}/docs/build-with-claude/handling-stop-reasons",
        "stop_reason says why the model stopped: end_turn, stop_sequence, max_tokens, tool_use.",
    ),
    Topic.LIMIT: Reference(
        f"{_CLAUDE}/api/messages", "No more than max_tokens tokens are generated."
    ),
    Topic.USAGE: Reference(
        f"{_CLAUDE}/api/messages",
        "usage counts the tokens of the prompt and of the answer; those of a stream are "
        "cumulative.",
    ),
    Topic.STREAM: Reference(
        f"{_CLAUDE}/docs/build-with-claude/streaming",
        "A stream is server-sent events: message_start, content blocks, message_delta, "
        "message_stop.",
    ),
    Topic.FORM: Reference(
        f"{_CLAUDE}/api/messages",
        "A message has content blocks with types, a stop reason, and usage.",
    ),
    Topic.ERRORS: Reference(
        f"{_CLAUDE}/api/errors",
        "An invalid request gets status 400 and an error object with a type and a message.",
    ),
    Topic.THINKING: Reference(
        f"{_CLAUDE}/docs/build-with-claude/extended-thinking",
        "Thinking is in blocks of its own, and only where it is enabled.",
    ),
    Topic.TOOLS: Reference(
        f"{_CLAUDE}/docs/agents-and-tools/tool-use/overview",
        "A call of a tool is a tool_use block whose input is an object.",
    ),
}
_OPENAI_COMMON = {
    Topic.ERRORS: Reference(
        f"{_OPENAI}/guides/error-codes",
        "An invalid request gets status 400 and an error object with a message.",
    ),
}
_OPENAI_STREAMS = {
    Topic.PACE: Reference(
        f"{_OPENAI}/api-reference/chat/create",
        "With stream the data is sent to the client as it is generated.",
    ),
    Topic.USAGE_CHUNK: Reference(
        f"{_OPENAI}/api-reference/chat/create",
        "With include_usage one more chunk comes before [DONE], which has the usage and no "
        "choices; usage is null in all others.",
    ),
}


def _openai_stops(page: str) -> dict[Topic, Reference]:
    address = f"{_OPENAI}/api-reference/{page}"
    return {
        Topic.NO_STOPS: Reference(address, "stop is optional and null by default."),
        Topic.ONE_STOP: Reference(address, "stop is a string or an array of strings."),
        Topic.DEFAULT: Reference(address, "stream is false by default."),
        Topic.NULLS: Reference(address, "Optional fields are of their type, or null."),
    }


_CHAT = (
    _OPENAI_COMMON
    | _OPENAI_STREAMS
    | _openai_stops("chat/create")
    | {
        Topic.PARTS: Reference(
            f"{_OPENAI}/api-reference/chat/create",
            "The content of a message is a string or an array of parts.",
        ),
        Topic.NEW_LIMIT: Reference(
            f"{_OPENAI}/api-reference/chat/create",
            "max_completion_tokens bounds the tokens generated, those of reasoning included.",
        ),
        Topic.STOPS: Reference(
            f"{_OPENAI}/api-reference/chat/create",
            "Up to 4 sequences where generation stops; the text does not contain the stop.",
        ),
        Topic.REASON: Reference(
            f"{_OPENAI}/api-reference/chat/object",
            "finish_reason is stop at a natural end or a stop, length at the limit, tool_calls "
            "where the model called a tool.",
        ),
        Topic.LIMIT: Reference(
            f"{_OPENAI}/api-reference/chat/create",
            "The limit bounds the tokens that are generated.",
        ),
        Topic.USAGE: Reference(
            f"{_OPENAI}/api-reference/chat/object",
            "usage counts the tokens of the prompt and of the answer; total_tokens is their sum.",
        ),
        Topic.STREAM: Reference(
            f"{_OPENAI}/api-reference/chat-streaming",
            "A stream is server-sent events of chunks; the last one is data: [DONE].",
        ),
        Topic.FORM: Reference(
            f"{_OPENAI}/api-reference/chat/object", "An answer has choices and usage."
        ),
        Topic.CHOICES: Reference(
            f"{_OPENAI}/api-reference/chat/create", "n choices are generated for each input."
        ),
        Topic.TOOLS: Reference(
            f"{_OPENAI}/api-reference/chat/object",
            "A call of a tool is in tool_calls; its arguments are JSON in a string.",
        ),
        Topic.STRUCTURED: Reference(
            f"{_OPENAI}/guides/structured-outputs",
            "With response_format the answer is JSON unless it is cut short.",
        ),
        Topic.LOGPROBS: Reference(
            f"{_OPENAI}/api-reference/chat/object",
            "logprobs.content lists the tokens of the message with their log probability.",
        ),
    }
)
_COMPLETIONS = (
    _OPENAI_COMMON
    | _OPENAI_STREAMS
    | _openai_stops("completions/create")
    | {
        Topic.STOPS: Reference(
            f"{_OPENAI}/api-reference/completions/create",
            "Up to 4 sequences where generation stops; the text does not contain the stop.",
        ),
        Topic.REASON: Reference(
            f"{_OPENAI}/api-reference/completions/object",
            "finish_reason is stop at a natural end or a stop, length at the limit.",
        ),
        Topic.LIMIT: Reference(
            f"{_OPENAI}/api-reference/completions/create",
            "max_tokens bounds the tokens that are generated.",
        ),
        Topic.USAGE: Reference(
            f"{_OPENAI}/api-reference/completions/object",
            "usage counts the tokens of the prompt and of the answer; total_tokens is their sum.",
        ),
        Topic.STREAM: Reference(
            f"{_OPENAI}/api-reference/completions/create",
            "A stream is server-sent events; the last one is data: [DONE].",
        ),
        Topic.FORM: Reference(
            f"{_OPENAI}/api-reference/completions/object", "An answer has choices and usage."
        ),
        Topic.CHOICES: Reference(
            f"{_OPENAI}/api-reference/completions/create", "n completions are made for each prompt."
        ),
        Topic.ECHO: Reference(
            f"{_OPENAI}/api-reference/completions/create",
            "With echo the prompt comes before the completion.",
        ),
        Topic.PROMPTS: Reference(
            f"{_OPENAI}/api-reference/completions/create",
            "prompt is a string, an array of strings, or tokens; completions are made for each.",
        ),
        Topic.LOGPROBS: Reference(
            f"{_OPENAI}/api-reference/completions/object",
            "logprobs.tokens lists the tokens of the text, with their log probabilities beside it.",
        ),
    }
)
# The vendor's Responses API has no stops, so stops are an extension there.
_RESPONSES = _OPENAI_COMMON | {
    Topic.PACE: _OPENAI_STREAMS[Topic.PACE],
    Topic.DEFAULT: Reference(
        f"{_OPENAI}/api-reference/responses/create", "stream is false by default."
    ),
    Topic.NULLS: Reference(
        f"{_OPENAI}/api-reference/responses/create", "Optional fields are of their type, or null."
    ),
    Topic.PARTS: Reference(
        f"{_OPENAI}/api-reference/responses/create",
        "input is a string, or an array of items whose content may be an array of parts.",
    ),
    Topic.REASON: Reference(
        f"{_OPENAI}/api-reference/responses/object",
        "status is completed, or incomplete with the reason in incomplete_details.",
    ),
    Topic.LIMIT: Reference(
        f"{_OPENAI}/api-reference/responses/create",
        "max_output_tokens bounds the tokens that are generated, those of reasoning included.",
    ),
    Topic.USAGE: Reference(
        f"{_OPENAI}/api-reference/responses/object",
        "usage counts the tokens of input and output, and total_tokens is their sum.",
    ),
    Topic.STREAM: Reference(
        f"{_OPENAI}/api-reference/responses-streaming",
        "A stream begins with response.created and ends with response.completed or its like.",
    ),
    Topic.FORM: Reference(
        f"{_OPENAI}/api-reference/responses/object", "A response has output items and usage."
    ),
    Topic.THINKING: Reference(f"{_OPENAI}/guides/reasoning", "Reasoning is in items of its own."),
    Topic.TOOLS: Reference(
        f"{_OPENAI}/api-reference/responses/object",
        "A call of a tool is a function_call item whose arguments are JSON in a string.",
    ),
    Topic.STRUCTURED: Reference(
        f"{_OPENAI}/guides/structured-outputs",
        "With text.format the answer is JSON unless it is cut short.",
    ),
}
_GENERATE = {
    Topic.ONE_STOP: Reference(
        f"{_SGLANG}/sampling_params.html", "stop is one word or a list of words."
    ),
    Topic.STOPS: Reference(
        f"{_SGLANG}/sampling_params.html",
        "stop is one word or a list of words at which generation stops.",
    ),
    Topic.MATCHED: Reference(
        f"{_SGLANG}/native_api.html",
        "finish_reason holds the stop that matched as matched.",
    ),
    Topic.REASON: Reference(
        f"{_SGLANG}/native_api.html",
        "meta_info.finish_reason says whether a stop or the length ended the answer.",
    ),
    Topic.LIMIT: Reference(
        f"{_SGLANG}/sampling_params.html",
        "max_new_tokens bounds the tokens that are generated.",
    ),
    Topic.USAGE: Reference(
        f"{_SGLANG}/native_api.html",
        "meta_info counts the tokens of the prompt and of the completion.",
    ),
    Topic.STREAM: Reference(
        f"{_SGLANG}/sampling_params.html",
        "Frames of a stream hold the text so far; the last one is data: [DONE].",
    ),
    Topic.FORM: Reference(f"{_SGLANG}/native_api.html", "An answer has text and meta_info."),
    Topic.DEFAULT: Reference(f"{_SGLANG}/sampling_params.html", "stream is false by default."),
    Topic.PROMPTS: Reference(
        f"{_SGLANG}/sampling_params.html", "text is a prompt, or a list of prompts."
    ),
    Topic.TOKEN_IDS: Reference(
        f"{_SGLANG}/sampling_params.html",
        "stop_token_ids lists the ids of tokens at which generation stops.",
    ),
}
_OLLAMA_CHAT = {
    Topic.STOPS: Reference(
        f"{_OLLAMA}/modelfile.mdx",
        "When a stop is met the model stops generating and returns.",
    ),
    Topic.REASON: Reference(f"{_OLLAMA}/api.md", "done_reason says why the answer ended."),
    Topic.LIMIT: Reference(
        f"{_OLLAMA}/modelfile.mdx", "num_predict is the largest number of tokens generated."
    ),
    Topic.USAGE: Reference(
        f"{_OLLAMA}/api.md",
        "prompt_eval_count and eval_count count the tokens of the prompt and of the answer.",
    ),
    Topic.STREAM: Reference(
        f"{_OLLAMA}/api.md",
        "A stream is one JSON object a line; the last one says done.",
    ),
    Topic.FORM: Reference(f"{_OLLAMA}/api.md", "An answer has a message and says done."),
    Topic.DEFAULT: Reference(f"{_OLLAMA}/api.md", "Answers are streamed unless stream is false."),
    Topic.SEED: Reference(
        f"{_OLLAMA}/modelfile.mdx", "With the same seed a prompt gets the same text."
    ),
    Topic.ERRORS: Reference(
        f"{_OLLAMA}/api.md", "An invalid request gets status 400 and an error in words."
    ),
    Topic.THINKING: Reference(
        f"{_OLLAMA}/api.md", "think decides whether the model thinks; thinking has its own field."
    ),
    Topic.TOOLS: Reference(
        f"{_OLLAMA}/api.md", "A call of a tool is in tool_calls; its arguments are an object."
    ),
    Topic.STRUCTURED: Reference(
        f"{_OLLAMA}/api.md", "With format the answer is JSON that fits it."
    ),
}

REFERENCES: Mapping[WireDialect, Mapping[Topic, Reference]] = {
    WireDialect.MESSAGES: _MESSAGES,
    WireDialect.CHAT: _CHAT,
    WireDialect.COMPLETIONS: _COMPLETIONS,
    WireDialect.RESPONSES: _RESPONSES,
    WireDialect.GENERATE: _GENERATE,
    WireDialect.OLLAMA: _OLLAMA_CHAT,
}


def reference(dialect: WireDialect, topic: Topic) -> Reference | None:
    """Return the reference of a dialect's vendor for a topic, or None."""
    return (_HTTP | dict(REFERENCES.get(dialect, {}))).get(topic)
