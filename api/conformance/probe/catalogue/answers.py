"""The cases of tools, counts, streams, form and errors, in their order. Pure; any thread."""

from api.conformance.probe.cases import Case, Level
from api.conformance.probe.dialects.references import Topic

_REFUSED = "is refused with status 400 and the dialect's error object; the server lives on."

ANSWER_CASES: tuple[Case, ...] = (
    Case(
        "choices.stop",
        "A stop in several choices",
        "Each of several choices ends at the stop.",
        Topic.CHOICES,
    ),
    Case(
        "logprobs.stop",
        "Logprobs beside a stop",
        "Logprobs are listed for the tokens of the text, not for those behind the stop.",
        Topic.LOGPROBS,
    ),
    Case(
        "tools.stop",
        "A stop inside the arguments of a call",
        "A stop inside the arguments of a call does not leave half a call.",
        Topic.TOOLS,
        Level.OPINION,
    ),
    Case(
        "structured.stop",
        "A stop in structured output",
        "A stop ends an answer of a given structure like any other.",
        Topic.STRUCTURED,
        Level.OPINION,
    ),
    Case(
        "usage.counts",
        "Counts of tokens",
        "No count is negative, an answer with text has output tokens, and totals are sums.",
        Topic.USAGE,
    ),
    Case(
        "usage.streamed",
        "Counts of streamed answers",
        "The same answer has the same count of tokens, whole or streamed.",
        Topic.USAGE,
    ),
    Case(
        "usage.stop",
        "Counts of tokens with a stop",
        "All tokens generated are counted, those of the stop included.",
        Topic.USAGE,
    ),
    Case(
        "stream.pace",
        "The pace of a stream",
        "The first piece of a stream comes long before the last.",
        Topic.STREAM,
    ),
    Case(
        "hang_up.streamed",
        "Clients that leave a stream",
        "After clients have left a stream the next one is answered as soon as ever.",
        Topic.STREAM,
        Level.OPINION,
    ),
    Case(
        "hang_up.whole",
        "Clients that do not wait for an answer",
        "After clients have left before their answer the next one is answered as soon as ever.",
        Topic.FORM,
        Level.OPINION,
    ),
    Case(
        "form.streamed",
        "Events of streamed answers",
        "Every stream has the events of its dialect, in their order, and ends.",
        Topic.STREAM,
    ),
    Case(
        "form.whole",
        "Fields of whole answers",
        "Every whole answer has the fields of its dialect.",
        Topic.FORM,
    ),
    Case(
        "stream.framing",
        "Streams as such",
        "A stream is sent where one is asked for, with its content type, and it ends.",
        Topic.STREAM,
    ),
    Case("errors.json", "A body that is not JSON", f"A broken body {_REFUSED}", Topic.ERRORS),
    Case("errors.prompt", "A number for the prompt", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.limit", "A word for the limit", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.stop_object", "An object for the stops", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.stop_number", "A number for the stops", f"A wrong type {_REFUSED}", Topic.ERRORS),
    Case("errors.stop_item", "A number among the stops", f"A wrong type {_REFUSED}", Topic.ERRORS),
)
