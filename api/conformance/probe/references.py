"""The vendors' documentation for each rule of each API, in our words.

Pure; any thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from api.conformance.captures.values import WireDialect

_CLAUDE = "https://docs.claude.com/en/"
_OPENAI = "https://platform.openai.com/docs/"
_SGLANG = "https://docs.sglang.ai/basic_usage/"
_OLLAMA = "https://github.com/ollama/ollama/blob/main/docs/"


class Topic(StrEnum):
    """The topic of a reference."""

    STOPS = "stops"
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
    """A section of a vendor's documentation."""

    address: str
    sentence: str


# The sentences by dialect and page; a rule that is in none of its pages is an extension.
_PAGES: Mapping[WireDialect, Mapping[str, Mapping[Topic, str]]] = {
    WireDialect.MESSAGES: {
        f"{_CLAUDE}api/messages": {
            Topic.STOPS: "The model stops generating when it produces one of stop_sequences.",
            Topic.NO_STOPS: (
                "stop_sequences is optional: normally the model stops at the natural end of its"
                " turn."
            ),
            Topic.PARTS: "The content of a message is a string or an array of blocks.",
            Topic.LIMIT: "No more than max_tokens tokens are generated.",
            Topic.USAGE: (
                "usage counts the tokens of the prompt and of the answer; those of a stream are"
                " cumulative."
            ),
            Topic.FORM: "A message has content blocks with types, a stop reason, and usage.",
        },
        f"{_CLAUDE}docs/build-with-claude/streaming": {
            Topic.PACE: "With stream the answer is sent incrementally.",
            Topic.STREAM: (
                "A stream is server-sent events: message_start, content blocks, message_delta, "
                "message_stop."
            ),
        },
        f"{_CLAUDE}api/errors": {
            Topic.TYPES: (
                "400 invalid_request_error says that the format or content of a request is wrong."
            ),
            Topic.ERRORS: (
                "An invalid request gets status 400 and an error object with a type and a message."
            ),
        },
        f"{_CLAUDE}docs/build-with-claude/handling-stop-reasons": {
            Topic.REASON: (
                "stop_reason says why the model stopped: end_turn, stop_sequence, max_tokens, "
                "tool_use."
            ),
        },
        f"{_CLAUDE}docs/build-with-claude/extended-thinking": {
            Topic.THINKING: "Thinking is in blocks of its own, and only where it is enabled.",
        },
        f"{_CLAUDE}docs/agents-and-tools/tool-use/overview": {
            Topic.TOOLS: "A call of a tool is a tool_use block whose input is an object.",
        },
    },
    WireDialect.CHAT: {
        f"{_OPENAI}guides/error-codes": {
            Topic.ERRORS: "An invalid request gets status 400 and an error object with a message.",
        },
        f"{_OPENAI}api-reference/chat/create": {
            Topic.PACE: "With stream the data is sent to the client as it is generated.",
            Topic.USAGE_CHUNK: (
                "With include_usage one more chunk comes before [DONE], which has the usage and"
                " no choices; usage is null in all others."
            ),
            Topic.NO_STOPS: "stop is optional and null by default.",
            Topic.ONE_STOP: "stop is a string or an array of strings.",
            Topic.DEFAULT: "stream is false by default.",
            Topic.NULLS: "Optional fields are of their type, or null.",
            Topic.PARTS: "The content of a message is a string or an array of parts.",
            Topic.NEW_LIMIT: (
                "max_completion_tokens bounds the tokens generated, those of reasoning included."
            ),
            Topic.STOPS: (
                "Up to 4 sequences where generation stops; the text does not contain the stop."
            ),
            Topic.LIMIT: "The limit bounds the tokens that are generated.",
            Topic.CHOICES: "n choices are generated for each input.",
        },
        f"{_OPENAI}api-reference/chat/object": {
            Topic.REASON: (
                "finish_reason is stop at a natural end or a stop, length at the limit, "
                "tool_calls where the model called a tool."
            ),
            Topic.USAGE: (
                "usage counts the tokens of the prompt and of the answer; total_tokens is their"
                " sum."
            ),
            Topic.FORM: "An answer has choices and usage.",
            Topic.TOOLS: "A call of a tool is in tool_calls; its arguments are JSON in a string.",
            Topic.LOGPROBS: (
                "logprobs.content lists the tokens of the message with their log probability."
            ),
        },
        f"{_OPENAI}api-reference/chat-streaming": {
            Topic.STREAM: (
                "A stream is server-sent events of chunks; the last one is data: [DONE]."
            ),
        },
        f"{_OPENAI}guides/structured-outputs": {
            Topic.STRUCTURED: "With response_format the answer is JSON unless it is cut short.",
        },
    },
    WireDialect.COMPLETIONS: {
        f"{_OPENAI}guides/error-codes": {
            Topic.ERRORS: "An invalid request gets status 400 and an error object with a message.",
        },
        f"{_OPENAI}api-reference/chat/create": {
            Topic.PACE: "With stream the data is sent to the client as it is generated.",
            Topic.USAGE_CHUNK: (
                "With include_usage one more chunk comes before [DONE], which has the usage and"
                " no choices; usage is null in all others."
            ),
        },
        f"{_OPENAI}api-reference/completions/create": {
            Topic.NO_STOPS: "stop is optional and null by default.",
            Topic.ONE_STOP: "stop is a string or an array of strings.",
            Topic.DEFAULT: "stream is false by default.",
            Topic.NULLS: "Optional fields are of their type, or null.",
            Topic.STOPS: (
                "Up to 4 sequences where generation stops; the text does not contain the stop."
            ),
            Topic.LIMIT: "max_tokens bounds the tokens that are generated.",
            Topic.STREAM: "A stream is server-sent events; the last one is data: [DONE].",
            Topic.CHOICES: "n completions are made for each prompt.",
            Topic.ECHO: "With echo the prompt comes before the completion.",
            Topic.PROMPTS: (
                "prompt is a string, an array of strings, or tokens; completions are made for each."
            ),
        },
        f"{_OPENAI}api-reference/completions/object": {
            Topic.REASON: "finish_reason is stop at a natural end or a stop, length at the limit.",
            Topic.USAGE: (
                "usage counts the tokens of the prompt and of the answer; total_tokens is their"
                " sum."
            ),
            Topic.FORM: "An answer has choices and usage.",
            Topic.LOGPROBS: (
                "logprobs.tokens lists the tokens of the text, with their log probabilities "
                "beside it."
            ),
        },
    },
    WireDialect.RESPONSES: {
        f"{_OPENAI}guides/error-codes": {
            Topic.ERRORS: "An invalid request gets status 400 and an error object with a message.",
        },
        f"{_OPENAI}api-reference/chat/create": {
            Topic.PACE: "With stream the data is sent to the client as it is generated.",
        },
        f"{_OPENAI}api-reference/responses/create": {
            Topic.DEFAULT: "stream is false by default.",
            Topic.NULLS: "Optional fields are of their type, or null.",
            Topic.PARTS: (
                "input is a string, or an array of items whose content may be an array of parts."
            ),
            Topic.LIMIT: (
                "max_output_tokens bounds the tokens that are generated, those of reasoning "
                "included."
            ),
        },
        f"{_OPENAI}api-reference/responses/object": {
            Topic.REASON: (
                "status is completed, or incomplete with the reason in incomplete_details."
            ),
            Topic.USAGE: (
                "usage counts the tokens of input and output, and total_tokens is their sum."
            ),
            Topic.FORM: "A response has output items and usage.",
            Topic.TOOLS: (
                "A call of a tool is a function_call item whose arguments are JSON in a string."
            ),
        },
        f"{_OPENAI}api-reference/responses-streaming": {
            Topic.STREAM: (
                "A stream begins with response.created and ends with response.completed or its "
                "like."
            ),
        },
        f"{_OPENAI}guides/reasoning": {
            Topic.THINKING: "Reasoning is in items of its own.",
        },
        f"{_OPENAI}guides/structured-outputs": {
            Topic.STRUCTURED: "With text.format the answer is JSON unless it is cut short.",
        },
    },
    WireDialect.GENERATE: {
        f"{_SGLANG}sampling_params.html": {
            Topic.ONE_STOP: "stop is one word or a list of words.",
            Topic.STOPS: "stop is one word or a list of words at which generation stops.",
            Topic.LIMIT: "max_new_tokens bounds the tokens that are generated.",
            Topic.STREAM: "Frames of a stream hold the text so far; the last one is data: [DONE].",
            Topic.DEFAULT: "stream is false by default.",
            Topic.PROMPTS: "text is a prompt, or a list of prompts.",
            Topic.TOKEN_IDS: "stop_token_ids lists the ids of tokens at which generation stops.",
        },
        f"{_SGLANG}native_api.html": {
            Topic.REASON: (
                "meta_info.finish_reason says whether a stop or the length ended the answer."
            ),
            Topic.USAGE: "meta_info counts the tokens of the prompt and of the completion.",
            Topic.FORM: "An answer has text and meta_info.",
        },
    },
    WireDialect.OLLAMA: {
        f"{_OLLAMA}modelfile.mdx": {
            Topic.STOPS: "When a stop is met the model stops generating and returns.",
            Topic.LIMIT: "num_predict is the largest number of tokens generated.",
            Topic.SEED: "With the same seed a prompt gets the same text.",
        },
        f"{_OLLAMA}api.md": {
            Topic.REASON: "done_reason says why the answer ended.",
            Topic.USAGE: (
                "prompt_eval_count and eval_count count the tokens of the prompt and of the answer."
            ),
            Topic.STREAM: "A stream is one JSON object a line; the last one says done.",
            Topic.FORM: "An answer has a message and says done.",
            Topic.DEFAULT: "Answers are streamed unless stream is false.",
            Topic.ERRORS: "An invalid request gets status 400 and an error in words.",
            Topic.THINKING: "think decides whether the model thinks; thinking has its own field.",
            Topic.TOOLS: "A call of a tool is in tool_calls; its arguments are an object.",
            Topic.STRUCTURED: "With format the answer is JSON that fits it.",
        },
    },
}
_HTTP = Reference(
    "https://www.rfc-editor.org/rfc/rfc9110#section-3.4",
    "A server answers each request with a response that has a status code.",
)


def reference(dialect: WireDialect, topic: Topic) -> Reference | None:
    """Return the reference of a dialect's vendor for a topic, or None."""
    if topic is Topic.HTTP:
        return _HTTP
    pages = _PAGES[dialect].items()
    return next((Reference(page, texts[topic]) for page, texts in pages if topic in texts), None)
