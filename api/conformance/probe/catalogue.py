"""All questions of the probe, as data.

A rule without a topic, or whose vendor says nothing about its topic, is an extension.
Pure; any thread.
"""

from dataclasses import replace

from api.conformance.probe.references import Topic
from api.conformance.probe.values import Case, Level

_EXACT = "The answer ends right before the stop, whole and streamed"
_ENDS = "ends the answer right before it, whole and streamed"
_REFUSED = "is refused with status 400 and the dialect's error object."
# Which of several stops wins is not written down anywhere.
_OTHER_STOP = ("another_stop_won", "wrong_sequence", "stop_ignored", "text_after_stop")
_OPINION, _EXTENSION = Level.OPINION, Level.EXTENSION


def _stop(code: str, title: str, rule: str, opinions: tuple[str, ...] = ()) -> Case:
    """Return a case of a stop that is chosen from a plain answer."""
    level = _OPINION if opinions else Level.SPECIFICATION
    return Case(f"stop.{code}", f"Stop: {title}", rule, Topic.STOPS, level, opinions=opinions)


def _among(code: str, title: str, rule: str, level: Level = Level.SPECIFICATION) -> Case:
    """Return a case of a stop in a request of another kind."""
    return Case(f"stops.{code}", title, rule, Topic.STOPS, level)


# All cases of the probe, in the order in which a report lists them.

_CASES: tuple[Case, ...] = (
    Case(
        "server.answers",
        "Answers to all requests",
        "Every request is answered, and so is the next one.",
        Topic.HTTP,
    ),
    Case(
        "baseline",
        "The same question twice, and streamed",
        "At temperature 0 a streamed answer has the text of the whole one.",
        None,
    ),
    _stop(
        "one_character",
        "one character",
        f"{_EXACT}, and the reason says that a stop ended it.",
    ),
    _stop(
        "inside_token",
        "inside a piece of the stream",
        f"{_EXACT}, also where the stop is inside one token.",
    ),
    _stop(
        "begins_inside",
        "from inside a token into the next",
        f"{_EXACT}, also where the stop begins inside a token and ends in a later one.",
    ),
    _stop("across_tokens", "across tokens", f"{_EXACT}, also where several tokens spell the stop."),
    _stop(
        "across_newline",
        "across a line break",
        f"{_EXACT}, also where the stop contains a line break.",
    ),
    _stop(
        "leading_space",
        "with a leading space",
        f"{_EXACT}; the white space of a stop belongs to it.",
    ),
    _stop(
        "trailing_space",
        "with white space at its end",
        f"{_EXACT}; the white space of a stop belongs to it.",
    ),
    _stop(
        "overlapping",
        "two that overlap",
        "Of stops that overlap, the one whose last character comes first ends the answer.",
        _OTHER_STOP,
    ),
    _stop(
        "shadowed",
        "one that begins another",
        "A stop that begins a longer one ends the answer before the longer one is complete.",
        _OTHER_STOP,
    ),
    _stop(
        "nested",
        "one inside a longer one",
        "A stop inside a longer one that is never complete ends the answer right before it.",
    ),
    _stop("after_space", "after white space", "White space before a stop is part of the answer."),
    _stop("among_others", "one in a list of four", f"{_EXACT}, whichever stop of a list it is."),
    _stop(
        "alike",
        "one of several that begin alike",
        f"{_EXACT}, also where other stops begin as it does.",
    ),
    Case(
        "stop.recurring_prefix",
        "Stop: never complete, though its beginning recurs",
        "A stop that is never complete changes nothing, however often its beginning occurs.",
        None,
    ),
    Case(
        "stop.held_at_the_end",
        "Stop: begun by the last characters, never complete",
        "Text that could have become a stop is part of the answer when the answer ends.",
        None,
    ),
    _stop(
        "last_characters",
        "the last characters",
        f"{_EXACT}, also where the stop is the very end of the answer.",
    ),
    _stop(
        "alike_at_the_end",
        "the last characters, which begin another",
        f"{_EXACT}, also where the answer ends before the other stop can be complete.",
    ),
    _stop(
        "very_first",
        "the very beginning",
        "A stop that is the first character leaves an empty answer.",
    ),
    _stop("unicode", "beyond ASCII", f"{_EXACT}, also where the stop is not ASCII."),
    _stop("ideograph", "an ideograph", f"{_EXACT}, also where the stop has three bytes."),
    _stop("emoji", "an emoji", f"{_EXACT}, also where the stop has four bytes."),
    Case(
        "stop.joined",
        "Stop: inside a joined character",
        "A stop matches code points, also where several are shown as one character.",
        None,
        _EXTENSION,
    ),
    _stop("after_emoji", "after an emoji", f"{_EXACT}, also after an emoji, which loses no text."),
    Case(
        "reason.natural",
        "The reason without stops",
        "An answer to a request without stops is not said to be ended by one.",
        Topic.REASON,
    ),
    Case(
        "stops.sticky",
        "Stops of the request before",
        "A request without stops has none, whatever the request before it had.",
        Topic.NO_STOPS,
    ),
    _among(
        "concurrent",
        "Stops of requests at the same time",
        "Requests at the same time each have their own stops.",
    ),
    _among("system", "A stop beside a system message", f"With a system message a stop {_ENDS}."),
    _among("turn", "A stop in a second turn", f"In a second turn a stop {_ENDS}."),
    _among("tools", "A stop beside tools", f"With tools that are not called a stop {_ENDS}."),
    _among(
        "result",
        "A stop after a tool's result",
        f"Who calls a tool takes its result, and after it a stop {_ENDS}.",
    ),
    _among(
        "temperature",
        "A stop at a temperature",
        "At a temperature above 0 no answer contains the stop.",
    ),
    _among(
        "short", "A stop in a short answer", f"In an answer of a few characters a stop {_ENDS}."
    ),
    _among("late", "A stop late in an answer", f"After more than 300 tokens a stop {_ENDS}."),
    Case(
        "limit",
        "A limit of tokens",
        "The limit ends the answer and is named as the reason.",
        Topic.LIMIT,
    ),
    Case(
        "limit.completion_tokens",
        "The limit by its newer name",
        "max_completion_tokens ends the answer, as max_tokens does.",
        Topic.NEW_LIMIT,
    ),
    Case(
        "limit.held",
        "Text held at the limit",
        "Text that could have become a stop is part of the answer when the limit ends it.",
        None,
    ),
    Case(
        "limit.stop_on_last_token",
        "A stop on the last allowed token",
        "A stop that the last allowed token completes is named as the reason.",
        Topic.REASON,
        _OPINION,
        opinions=("stop_lost_to_limit",),
    ),
    Case(
        "limit.stop_before",
        "A stop right before the limit",
        "A stop that is complete a token before the last allowed one ends the answer.",
        Topic.STOPS,
    ),
    Case(
        "limit.own_end",
        "An answer's own end right before the limit",
        "An answer that ends by itself within the limit has no text behind its end.",
        Topic.REASON,
    ),
    Case(
        "thinking.off",
        "Thinking switched off",
        "With thinking switched off no tag of it is in the text, nor any thinking if it can be.",
        Topic.THINKING,
        _EXTENSION,
    ),
    Case(
        "thinking.streamed",
        "Thinking in streams",
        "A stream has the thinking that the whole answer has.",
        None,
    ),
    Case(
        "thinking.answer",
        "A stop in the answer after thinking",
        f"A stop that occurs in the answer alone {_ENDS}, also after thinking.",
        Topic.STOPS,
    ),
    Case(
        "thinking.stop",
        "A stop that occurs in thinking only",
        "A stop that occurs in the thinking alone does not take the answer away.",
        None,
        _EXTENSION,
    ),
    Case(
        "thinking.both",
        "A stop that occurs in thinking and answer",
        "A stop that occurs in both leaves the thinking whole and ends the answer.",
        None,
        _EXTENSION,
    ),
    Case(
        "stops.none",
        "No stops: an empty list, null",
        "An empty list, or null, means that there are no stops.",
        Topic.NO_STOPS,
    ),
    Case(
        "stops.string",
        "A bare string for one stop",
        "One stop may stand without a list; it is the whole string, not each of its characters.",
        Topic.ONE_STOP,
        # Ollama itself takes a list only.
        opinions=("refused",),
    ),
    Case(
        "stops.twice",
        "A stop that is listed twice",
        "A list with the same stop twice is refused, or is the list with that stop.",
        None,
    ),
    Case(
        "stops.blank",
        "A stop of white space",
        "A stop of white space is refused, or is a stop like any other.",
        None,
    ),
    Case(
        "stops.token_ids",
        "Stop token ids",
        "A token whose id is listed ends the answer.",
        Topic.TOKEN_IDS,
    ),
    Case(
        "stops.many",
        "More stops than four",
        "Every stop of a list counts, or the list is refused.",
        None,
    ),
    _among(
        "long", "A long stop", "A long stop ends the answer where it is complete, and only there."
    ),
    _among(
        "literal",
        "Stops that resemble the text",
        "A stop is text: its case counts; it is no pattern, no escape, and no list with commas; "
        "what is in the prompt is no match.",
    ),
    Case(
        "stops.code_points",
        "Stops of other code points",
        "A stop matches the same code points only: no normalisation, no other line breaks.",
        None,
        _EXTENSION,
    ),
    Case(
        "choices.count",
        "Several choices",
        "As many choices come as are asked for, each with its own index, text and reason.",
        Topic.CHOICES,
    ),
    Case(
        "choices.stop",
        "A stop in several choices",
        "Each of several choices ends at the stop.",
        Topic.CHOICES,
    ),
    Case(
        "logprobs.stop",
        "Logprobs beside a stop",
        "Logprobs are listed for the tokens of the text, not for those behind the stop, and the "
        "reason is given with them, too.",
        Topic.LOGPROBS,
    ),
    Case(
        "tools.call",
        "A call of a tool",
        "A call is the same whole and streamed, and the reason says that it is one.",
        Topic.TOOLS,
    ),
    Case(
        "tools.limit",
        "A call that the limit cuts",
        "A call that the limit cuts ends with the limit as its reason, whole and streamed.",
        Topic.REASON,
    ),
    Case(
        "tools.stop",
        "A stop inside the arguments of a call",
        "A stop inside a call leaves no half call, and streams show the text that whole answers "
        "show.",
        None,
        _EXTENSION,
    ),
    Case(
        "tools.choice",
        "Whether a tool is called",
        "A call is made where tool_choice requires it, and none where it rules calls out.",
        Topic.TOOLS,
    ),
    Case(
        "limit.thinking",
        "A limit after thinking",
        "The limit ends an answer after thinking, whose tokens count.",
        Topic.LIMIT,
    ),
    Case(
        "structured.stop",
        "A stop in structured output",
        "A stop ends an answer of a given structure like any other.",
        None,
        _EXTENSION,
    ),
    Case(
        "structured.beside",
        "JSON asked for in other requests",
        "An answer for which JSON is asked is JSON, with thinking or without, whole and streamed.",
        Topic.STRUCTURED,
    ),
    Case(
        "logprobs.beside",
        "Logprobs in other requests",
        "Logprobs are listed for the tokens of the text, with alternatives or without them.",
        Topic.LOGPROBS,
    ),
    Case(
        "tools.beside",
        "A call of a tool in other requests",
        "A call is the same whole and streamed, with thinking or without it.",
        Topic.TOOLS,
    ),
    Case(
        "request.default",
        "A request that does not say stream",
        "Where a request does not say whether it wants a stream, the API's default decides.",
        Topic.DEFAULT,
    ),
    Case(
        "request.parts",
        "A prompt in parts",
        "A prompt that is a list of parts gets the answer of the same prompt as a string.",
        Topic.PARTS,
    ),
    Case(
        "request.nulls",
        "Null for optional fields",
        "Optional fields that are null are as if they were not there.",
        Topic.NULLS,
    ),
    Case(
        "request.echo",
        "The prompt before the answer",
        "With echo the text is that of the prompt and the answer, in which stops alone count.",
        Topic.ECHO,
    ),
    Case(
        "request.prompts",
        "Several prompts",
        "Each of several prompts gets its own answer, in the order of the prompts.",
        Topic.PROMPTS,
    ),
    Case(
        "request.seed",
        "The same seed",
        "The same request with the same seed gets the same answer.",
        Topic.SEED,
    ),
    Case(
        "usage.counts",
        "Counts of tokens",
        "No count is negative, prompts and answers with text have tokens, and totals are sums.",
        Topic.USAGE,
    ),
    Case(
        "usage.streamed",
        "Counts of streamed answers",
        "The same answer has the same count of tokens, whole or streamed.",
        None,
    ),
    Case(
        "usage.chunk",
        "The chunk with the counts",
        "Streams have counts where they are asked for: once, in a chunk without choices.",
        Topic.USAGE_CHUNK,
    ),
    Case(
        "usage.stop",
        "Counts of tokens with a stop",
        "All tokens generated are counted, those of the stop included.",
        Topic.USAGE,
    ),
    Case(
        "answers.agree",
        "All answers beside each other",
        "What belongs to the same text is the same in every answer: its reason and its counts.",
        Topic.USAGE,
    ),
    Case(
        "stream.pace",
        "The pace of a stream",
        "The first piece of a stream comes long before the last.",
        Topic.PACE,
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
        "form.same",
        "What streamed and whole answers say of themselves",
        "At temperature 0 a stream has the reason, calls and counts of the whole answer.",
        None,
    ),
    Case(
        "stream.framing",
        "Streams as such",
        "A stream is sent where one is asked for, with its content type, and it ends.",
        Topic.STREAM,
    ),
    Case(
        "stops.empty",
        "An empty stop",
        "An empty stop is refused or ignored, whole and streamed; it never matches.",
        None,
        may_harm=True,
    ),
    Case(
        "hang_up.streamed",
        "Clients that leave a stream",
        "After clients have left a stream the next one is answered as soon as ever.",
        None,
        _EXTENSION,
        may_harm=True,
    ),
    Case(
        "hang_up.whole",
        "Clients that do not wait for an answer",
        "After clients have left before their answer the next one is answered as soon as ever.",
        None,
        _OPINION,
        may_harm=True,
        opinions=("not_freed",),
    ),
    *(
        Case(f"errors.{code}", title, f"{what} {_REFUSED}", topic, may_harm=True)
        for code, title, what, topic in (
            ("json", "A body that is not JSON", "A broken body", Topic.ERRORS),
            ("prompt", "A number for the prompt", "A wrong type", Topic.TYPES),
            ("limit", "A word for the limit of a stream", "A wrong type", Topic.TYPES),
            ("stop_object", "An object for the stops", "A wrong type", Topic.TYPES),
            ("stop_number", "A number for the stops", "A wrong type", Topic.TYPES),
            ("stop_item", "A number among the stops of a stream", "A wrong type", Topic.TYPES),
        )
    ),
)

# The most telling ones: together some 900 tokens of short answers.
_QUICK = frozenset(
    {
        "server.answers",
        "baseline",
        *(f"stop.{code}" for code in ("one_character", "across_tokens", "among_others")),
        *(f"stop.{code}" for code in ("held_at_the_end", "very_first")),
        "reason.natural",
        "stops.system",
        "stops.short",
        "limit",
        "usage.counts",
        "usage.chunk",
        "form.streamed",
        "form.whole",
        "form.same",
        "answers.agree",
        "stream.framing",
        "stops.empty",
        "errors.json",
        "errors.stop_number",
    }
)
CASES = tuple(replace(case, is_quick=case.code in _QUICK) for case in _CASES)
_BY_CODE = {case.code: case for case in CASES}


def case_of(code: str) -> Case:
    """Return the case with an id."""
    return _BY_CODE[code]
