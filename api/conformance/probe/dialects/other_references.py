"""What the references of dialects that our own server does not offer say, in our words.

Pure; any thread.
"""

from collections.abc import Mapping

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects.topics import Reference, Topic

_LLAMA = "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md"
_TGI = "https://huggingface.github.io/text-generation-inference/"
_GEMINI = "https://ai.google.dev/api/generate-content"
_BEDROCK = "https://docs.aws.amazon.com/bedrock/latest/APIReference"

OTHER_REFERENCES: Mapping[WireDialect, Mapping[Topic, Reference]] = {
    WireDialect.LLAMA_CPP: {
        Topic.STOPS: Reference(
            _LLAMA, "Generation stops at one of the strings in stop, which is not in the answer."
        ),
        Topic.MATCHED: Reference(_LLAMA, "stopping_word is the stop that ended the answer."),
        Topic.REASON: Reference(_LLAMA, "stop_type is eos, limit or word."),
        Topic.LIMIT: Reference(_LLAMA, "n_predict is the largest number of tokens generated."),
        Topic.USAGE: Reference(
            _LLAMA, "tokens_evaluated and tokens_predicted count prompt and answer."
        ),
        Topic.STREAM: Reference(_LLAMA, "The last object of a stream says that stop is true."),
        Topic.FORM: Reference(_LLAMA, "An answer has content and stop."),
    },
    WireDialect.TGI: {
        Topic.STOPS: Reference(
            _TGI, "Generation stops when a member of parameters.stop is generated."
        ),
        Topic.REASON: Reference(_TGI, "finish_reason is length, eos_token or stop_sequence."),
        Topic.LIMIT: Reference(_TGI, "max_new_tokens is the largest number of tokens generated."),
        Topic.USAGE: Reference(_TGI, "details count the tokens generated."),
        Topic.STREAM: Reference(_TGI, "The last event of a stream holds the whole generated_text."),
        Topic.FORM: Reference(_TGI, "An answer has generated_text, and details where asked for."),
        Topic.ERRORS: Reference(_TGI, "An invalid request gets status 422 and an error in words."),
    },
    WireDialect.GEMINI: {
        Topic.STOPS: Reference(
            _GEMINI,
            "Output stops at the first of up to 5 stopSequences, which is not in the answer.",
        ),
        Topic.REASON: Reference(_GEMINI, "finishReason says why the model stopped."),
        Topic.LIMIT: Reference(
            _GEMINI, "maxOutputTokens is the largest number of tokens of a candidate."
        ),
        Topic.USAGE: Reference(_GEMINI, "usageMetadata counts prompt, candidates and both."),
        Topic.STREAM: Reference(_GEMINI, "A stream is a series of answers; the last has a reason."),
        Topic.FORM: Reference(_GEMINI, "An answer has candidates with content of parts."),
    },
    WireDialect.CONVERSE: {
        Topic.STOPS: Reference(
            f"{_BEDROCK}/API_runtime_InferenceConfiguration.html",
            "A stop sequence makes the model stop generating the answer.",
        ),
        Topic.REASON: Reference(
            f"{_BEDROCK}/API_runtime_Converse.html", "stopReason says why the model stopped."
        ),
        Topic.LIMIT: Reference(
            f"{_BEDROCK}/API_runtime_InferenceConfiguration.html",
            "maxTokens is the largest number of tokens generated.",
        ),
        Topic.USAGE: Reference(
            f"{_BEDROCK}/API_runtime_TokenUsage.html", "usage counts input, output and both."
        ),
        Topic.STREAM: Reference(
            f"{_BEDROCK}/API_runtime_ConverseStream.html",
            "A stream begins with messageStart and ends with messageStop and metadata.",
        ),
        Topic.FORM: Reference(
            f"{_BEDROCK}/API_runtime_Converse.html", "An answer has output with a message."
        ),
    },
}
