"""The dialects that can be probed although our own server does not speak them. Pure; any thread."""

from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.dialects import errors, other_bodies
from api.conformance.probe.dialects.driver import Driver


def _words(field: str, natural: str, stop: str, limit: str) -> dict[CapturedEnding, str]:
    return {
        CapturedEnding.NATURAL: f'{field} "{natural}"',
        CapturedEnding.STOP: f'{field} "{stop}"',
        CapturedEnding.NATURAL_OR_STOP: f'{field} "{natural}"',
        CapturedEnding.LIMIT: f'{field} "{limit}"',
        CapturedEnding.TOOL: f'{field} "{natural}"',
    }


OTHER_DRIVERS = (
    Driver(
        WireDialect.LLAMA_CPP,
        path="/completion",
        make=other_bodies.llama_cpp_body,
        stop_path=("stop",),
        limit_path=("n_predict",),
        prompt_path=("prompt",),
        is_envelope=errors.is_openai_error,
        words=_words("stop_type", "eos", "word", "limit"),
        takes_string=False,
        can_think=False,
        has_chat_template=False,
        names_stop=True,
        is_detected=False,
    ),
    Driver(
        WireDialect.TGI,
        path="/generate",
        streamed_path="/generate_stream",
        make=other_bodies.tgi_body,
        stop_path=("parameters", "stop"),
        limit_path=("parameters", "max_new_tokens"),
        prompt_path=("inputs",),
        is_envelope=errors.is_ollama_error,
        words=_words("finish_reason", "eos_token", "stop_sequence", "length"),
        takes_string=False,
        can_think=False,
        has_chat_template=False,
        is_detected=False,
    ),
    Driver(
        WireDialect.GEMINI,
        path="/v1beta/models/{model}:generateContent",
        streamed_path="/v1beta/models/{model}:streamGenerateContent?alt=sse",
        make=other_bodies.gemini_body,
        stop_path=("generationConfig", "stopSequences"),
        limit_path=("generationConfig", "maxOutputTokens"),
        prompt_path=("contents",),
        is_envelope=errors.is_openai_error,
        words=_words("finishReason", "STOP", "STOP", "MAX_TOKENS"),
        takes_string=False,
        can_think=False,
        is_detected=False,
    ),
    Driver(
        WireDialect.CONVERSE,
        path="/model/{model}/converse",
        streamed_path="/model/{model}/converse-stream",
        make=other_bodies.converse_body,
        stop_path=("inferenceConfig", "stopSequences"),
        limit_path=("inferenceConfig", "maxTokens"),
        prompt_path=("messages",),
        is_envelope=errors.is_converse_error,
        words=_words("stopReason", "end_turn", "stop_sequence", "max_tokens"),
        takes_string=False,
        can_think=False,
        is_detected=False,
    ),
)
