"""The table of the dialects that can be probed. Pure; any thread."""

from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.dialects import bodies, errors
from api.conformance.probe.dialects.driver import Driver
from api.conformance.probe.dialects.other_drivers import OTHER_DRIVERS

_FINISH_REASONS = {
    CapturedEnding.NATURAL: 'finish_reason "stop"',
    CapturedEnding.STOP: 'finish_reason "stop"',
    CapturedEnding.NATURAL_OR_STOP: 'finish_reason "stop"',
    CapturedEnding.LIMIT: 'finish_reason "length"',
    CapturedEnding.TOOL: 'finish_reason "tool_calls"',
}
_STATUSES = {
    CapturedEnding.NATURAL: 'status "completed"',
    CapturedEnding.STOP: 'status "completed"',
    CapturedEnding.NATURAL_OR_STOP: 'status "completed"',
    CapturedEnding.LIMIT: 'status "incomplete" with reason "max_output_tokens"',
    CapturedEnding.TOOL: 'status "completed"',
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
            words={
                CapturedEnding.NATURAL: 'stop_reason "end_turn"',
                CapturedEnding.STOP: 'stop_reason "stop_sequence"',
                CapturedEnding.NATURAL_OR_STOP: 'stop_reason "end_turn"',
                CapturedEnding.LIMIT: 'stop_reason "max_tokens"',
                CapturedEnding.TOOL: 'stop_reason "tool_use"',
            },
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
            words={
                CapturedEnding.NATURAL: 'done_reason "stop"',
                CapturedEnding.STOP: 'done_reason "stop"',
                CapturedEnding.NATURAL_OR_STOP: 'done_reason "stop"',
                CapturedEnding.LIMIT: 'done_reason "length"',
                CapturedEnding.TOOL: 'done_reason "stop"',
            },
        ),
        Driver(
            WireDialect.GENERATE,
            path="/generate",
            make=bodies.generate_body,
            stop_path=("sampling_params", "stop"),
            limit_path=("sampling_params", "max_new_tokens"),
            prompt_path=("text",),
            is_envelope=errors.is_generate_error,
            words={
                CapturedEnding.NATURAL: 'finish_reason type "stop"',
                CapturedEnding.STOP: 'finish_reason type "stop" with the stop as "matched"',
                CapturedEnding.NATURAL_OR_STOP: 'finish_reason type "stop"',
                CapturedEnding.LIMIT: 'finish_reason type "length"',
                CapturedEnding.TOOL: 'finish_reason type "stop"',
            },
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
