"""The table of the dialects that can be probed. Pure; any thread."""

from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.dialects import bodies, errors
from api.conformance.probe.dialects.driver import Driver, words_of
from api.conformance.probe.dialects.other_drivers import OTHER_DRIVERS

_FINISH_REASONS = words_of("finish_reason", "stop", "stop", "length", tool="tool_calls")
_STATUSES = words_of("status", "completed", "completed", "incomplete") | {
    CapturedEnding.LIMIT: 'status "incomplete" with reason "max_output_tokens"'
}
_GENERATE_REASONS = words_of("finish_reason type", "stop", "stop", "length") | {
    CapturedEnding.STOP: 'finish_reason type "stop" with the stop as "matched"'
}

DRIVERS: dict[WireDialect, Driver] = {
    one.dialect: one
    for one in (
        Driver(
            WireDialect.MESSAGES,
            path="/v1/messages",
            make=bodies.messages_body,
            stop_path=("stop_sequences",),
            limit_path=("max_tokens",),
            prompt_path=("messages",),
            is_envelope=errors.is_messages_error,
            words=words_of(
                "stop_reason", "end_turn", "stop_sequence", "max_tokens", tool="tool_use"
            ),
            takes_string=False,
            names_stop=True,
        ),
        Driver(
            WireDialect.CHAT,
            path="/v1/chat/completions",
            make=bodies.chat_body,
            stop_path=("stop",),
            limit_path=("max_tokens",),
            prompt_path=("messages",),
            is_envelope=errors.is_openai_error,
            words=_FINISH_REASONS,
            ids_path=("stop_token_ids",),
        ),
        Driver(
            WireDialect.RESPONSES,
            path="/v1/responses",
            make=bodies.responses_body,
            stop_path=("stop",),
            limit_path=("max_output_tokens",),
            prompt_path=("input",),
            is_envelope=errors.is_openai_error,
            words=_STATUSES,
            are_stops_standard=False,
        ),
        Driver(
            WireDialect.OLLAMA,
            path="/api/chat",
            make=bodies.ollama_body,
            stop_path=("options", "stop"),
            limit_path=("options", "num_predict"),
            prompt_path=("messages",),
            is_envelope=errors.is_ollama_error,
            words=words_of("done_reason", "stop", "stop", "length"),
        ),
        Driver(
            WireDialect.GENERATE,
            path="/generate",
            make=bodies.generate_body,
            stop_path=("sampling_params", "stop"),
            limit_path=("sampling_params", "max_new_tokens"),
            prompt_path=("text",),
            is_envelope=errors.is_generate_error,
            words=_GENERATE_REASONS,
            ids_path=("sampling_params", "stop_token_ids"),
            can_think=False,
            has_chat_template=False,
            names_stop=True,
        ),
        Driver(
            WireDialect.COMPLETIONS,
            path="/v1/completions",
            make=bodies.completions_body,
            stop_path=("stop",),
            limit_path=("max_tokens",),
            prompt_path=("prompt",),
            is_envelope=errors.is_openai_error,
            words=_FINISH_REASONS,
            ids_path=("stop_token_ids",),
            can_think=False,
            has_chat_template=False,
        ),
        *OTHER_DRIVERS,
    )
}
