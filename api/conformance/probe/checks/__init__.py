"""The checks of the probe, by subject.

Each is in the module of the first pattern that its id has:

agreement_checks: answers.* reason.*
error_checks: errors.*
feature_checks: choices.* logprobs.* request.* structured.*
form_checks: form.*
thinking_checks: thinking.* limit.thinking
limit_checks: limit*
request_checks: stops.system stops.turn stops.tools stops.temperature stops.short stops.late
    stops.sticky stops.concurrent
tool_checks: tools.* stops.result
stop_checks: stop.* stops.*
stream_checks: stream.* hang_up.*
usage_checks: usage.*
"""
