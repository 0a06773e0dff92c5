"""The vendors' documentation for each rule of each API, in our words.

Pure; any thread.
"""

from dataclasses import dataclass

from api.conformance.captures.values import WireDialect


@dataclass(frozen=True, slots=True)
class Reference:
    """A section of a vendor's documentation."""

    address: str
    sentence: str


# The pages of the dialects' vendors, and the sentences of each by topic. A rule whose topic is on
# none of the vendor's pages, or that has none, is an extension; "any" is all dialects.
_PAGES = {
    ("any", "https://www.rfc-editor.org/rfc/rfc9110#section-3.4"): {
        "answers to requests": (
            "A server answers each request with a response that has a status code."
        ),
    },
    ("messages", "https://docs.claude.com/en/api/messages"): {
        "stops": "The model stops generating when it produces one of stop_sequences.",
        "requests without stops": (
            "stop_sequences is optional: normally the model stops at the natural end of its turn."
        ),
        "the limit": "No more than max_tokens tokens are generated.",
        "usage": (
            "usage counts the tokens of the prompt and of the answer; those of a stream are "
            "cumulative."
        ),
        "the fields of an answer": (
            "A message has content blocks with types, a stop reason, and usage."
        ),
    },
    ("messages", "https://docs.claude.com/en/docs/build-with-claude/streaming"): {
        "the pace of streams": "With stream the answer is sent incrementally.",
        "streams": (
            "A stream is server-sent events: message_start, content blocks, message_delta, "
            "message_stop."
        ),
    },
    ("messages", "https://docs.claude.com/en/api/errors"): {
        "wrong types": (
            "400 invalid_request_error says that the format or content of a request is wrong."
        ),
        "errors": (
            "An invalid request gets status 400 and an error object with a type and a message."
        ),
    },
    ("messages", "https://docs.claude.com/en/docs/build-with-claude/handling-stop-reasons"): {
        "the reason": (
            "stop_reason says why the model stopped: end_turn, stop_sequence, max_tokens, tool_use."
        ),
    },
    ("messages", "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"): {
        "thinking": "Thinking is in blocks of its own, and only where it is enabled.",
    },
    ("messages", "https://docs.claude.com/en/docs/agents-and-tools/tool-use/overview"): {
        "tool calls": "A call of a tool is a tool_use block whose input is an object.",
    },
    ("chat completions responses", "https://platform.openai.com/docs/guides/error-codes"): {
        "errors": "An invalid request gets status 400 and an error object with a message.",
    },
    ("chat completions responses", "https://platform.openai.com/docs/api-reference/chat/create"): {
        "the pace of streams": "With stream the data is sent to the client as it is generated.",
    },
    ("chat completions", "https://platform.openai.com/docs/api-reference/chat/create"): {
        "the counts of streams": (
            "With include_usage one more chunk comes before [DONE], which has the usage and no "
            "choices; usage is null in all others."
        ),
    },
    ("chat", "https://platform.openai.com/docs/api-reference/chat/create"): {
        "requests without stops": "stop is optional and null by default.",
        "one stop without a list": "stop is a string or an array of strings.",
        "requests that do not say stream": "stream is false by default.",
        "the limit's newer name": (
            "max_completion_tokens bounds the tokens generated, those of reasoning included."
        ),
        "stops": "Up to 4 sequences where generation stops; the text does not contain the stop.",
        "the limit": "The limit bounds the tokens that are generated.",
        "several choices": "n choices are generated for each input.",
    },
    ("chat", "https://platform.openai.com/docs/api-reference/chat/object"): {
        "the reason": (
            "finish_reason is stop at a natural end or a stop, length at the limit, tool_calls "
            "where the model called a tool."
        ),
        "usage": (
            "usage counts the tokens of the prompt and of the answer; total_tokens is their sum."
        ),
        "the fields of an answer": "An answer has choices and usage.",
        "tool calls": "A call of a tool is in tool_calls; its arguments are JSON in a string.",
        "logprobs": "logprobs.content lists the tokens of the message with their log probability.",
    },
    ("chat", "https://platform.openai.com/docs/api-reference/chat-streaming"): {
        "streams": "A stream is server-sent events of chunks; the last one is data: [DONE].",
    },
    ("completions", "https://platform.openai.com/docs/api-reference/completions/create"): {
        "requests without stops": "stop is optional and null by default.",
        "one stop without a list": "stop is a string or an array of strings.",
        "requests that do not say stream": "stream is false by default.",
        "stops": "Up to 4 sequences where generation stops; the text does not contain the stop.",
        "the limit": "max_tokens bounds the tokens that are generated.",
        "streams": "A stream is server-sent events; the last one is data: [DONE].",
        "several choices": "n completions are made for each prompt.",
    },
    ("completions", "https://platform.openai.com/docs/api-reference/completions/object"): {
        "the reason": "finish_reason is stop at a natural end or a stop, length at the limit.",
        "usage": (
            "usage counts the tokens of the prompt and of the answer; total_tokens is their sum."
        ),
        "the fields of an answer": "An answer has choices and usage.",
        "logprobs": (
            "logprobs.tokens lists the tokens of the text, with their log probabilities beside it."
        ),
    },
    ("responses", "https://platform.openai.com/docs/api-reference/responses/create"): {
        "requests that do not say stream": "stream is false by default.",
        "the limit": (
            "max_output_tokens bounds the tokens that are generated, those of reasoning included."
        ),
    },
    ("responses", "https://platform.openai.com/docs/api-reference/responses/object"): {
        "the reason": "status is completed, or incomplete with the reason in incomplete_details.",
        "usage": "usage counts the tokens of input and output, and total_tokens is their sum.",
        "the fields of an answer": "A response has output items and usage.",
        "tool calls": (
            "A call of a tool is a function_call item whose arguments are JSON in a string."
        ),
    },
    ("responses", "https://platform.openai.com/docs/api-reference/responses-streaming"): {
        "streams": (
            "A stream begins with response.created and ends with response.completed or its like."
        ),
    },
    ("responses", "https://platform.openai.com/docs/guides/reasoning"): {
        "thinking": "Reasoning is in items of its own.",
    },
    ("generate", "https://docs.sglang.ai/basic_usage/sampling_params.html"): {
        "one stop without a list": "stop is one word or a list of words.",
        "stops": "stop is one word or a list of words at which generation stops.",
        "the limit": "max_new_tokens bounds the tokens that are generated.",
        "streams": "Frames of a stream hold the text so far; the last one is data: [DONE].",
        "requests that do not say stream": "stream is false by default.",
        "stop token ids": "stop_token_ids lists the ids of tokens at which generation stops.",
    },
    ("generate", "https://docs.sglang.ai/basic_usage/native_api.html"): {
        "the reason": "meta_info.finish_reason says whether a stop or the length ended the answer.",
        "usage": "meta_info counts the tokens of the prompt and of the completion.",
        "the fields of an answer": "An answer has text and meta_info.",
    },
    ("ollama", "https://github.com/ollama/ollama/blob/main/docs/modelfile.mdx"): {
        "stops": "When a stop is met the model stops generating and returns.",
        "the limit": "num_predict is the largest number of tokens generated.",
    },
    ("ollama", "https://github.com/ollama/ollama/blob/main/docs/api.md"): {
        "the reason": "done_reason says why the answer ended.",
        "usage": (
            "prompt_eval_count and eval_count count the tokens of the prompt and of the answer."
        ),
        "streams": "A stream is one JSON object a line; the last one says done.",
        "the fields of an answer": "An answer has a message and says done.",
        "requests that do not say stream": "Answers are streamed unless stream is false.",
        "errors": "An invalid request gets status 400 and an error in words.",
        "thinking": "think decides whether the model thinks; thinking has its own field.",
        "tool calls": "A call of a tool is in tool_calls; its arguments are an object.",
    },
}
_REFERENCES = {
    (dialect, topic): Reference(address, sentence)
    for (dialects, address), sentences in _PAGES.items()
    for dialect in dialects.split()
    for topic, sentence in sentences.items()
}
_TOPICS = {"-", *(topic for _, topic in _REFERENCES)}


def reference(dialect: WireDialect, topic: str) -> Reference | None:
    """Return the reference of a dialect's vendor for a topic, or None.

    Raises:
        ValueError: The topic is misspelt: no vendor has it.
    """
    if topic not in _TOPICS:
        raise ValueError(f"no vendor's reference has the topic {topic!r}")
    return _REFERENCES.get((dialect, topic)) or _REFERENCES.get(("any", topic))
