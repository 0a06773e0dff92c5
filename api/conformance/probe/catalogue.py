"""All checks of the probe, as data.

A rule without a topic, or whose vendor says nothing about its topic, is an extension.
Pure; any thread.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from api.conformance.captures.values import WireDialect
from api.conformance.probe.references import Reference, reference

_EXACT = "The answer ends right before the stop, whole and streamed"
_ENDS = "ends the answer right before it, whole and streamed"
_REFUSED = "is refused with status 400 and the dialect's error object."
# No vendor defines which of several stops wins.
_OTHER_STOP = "another_stop_won,wrong_sequence,stop_ignored,text_after_stop"
# In the order of a report. A row has the id, the topic, the title and flags; below it is the rule.
# ``opinion:`` and ``unstated:`` list faults, see ``Case``.
# The quick checks need some 900 tokens of short answers together.
_TABLE = """
server.answers | answers to requests | Answers to all requests | quick
    Every request is answered, and so is the next one.
baseline | - | The same question twice, and streamed | quick
    At temperature 0 a streamed answer has the text of the whole one.
stop.one_character | stops | Stop: one character | quick
    {exact}, and the reason says that a stop ended it.
stop.inside_token | stops | Stop: inside a piece of the stream
    {exact}, also where the stop is inside one token.
stop.begins_inside | stops | Stop: from inside a token into the next
    {exact}, also where the stop begins inside a token and ends in a later one.
stop.across_tokens | stops | Stop: across tokens | quick
    {exact}, also where several tokens spell the stop.
stop.across_newline | stops | Stop: across a line break
    {exact}, also where the stop contains a line break.
stop.leading_space | stops | Stop: with a leading space
    {exact}; the white space of a stop belongs to it.
stop.trailing_space | stops | Stop: with white space at its end
    {exact}; the white space of a stop belongs to it.
stop.overlapping | stops | Stop: two that overlap | opinion:{other_stop}
    Of stops that overlap, the one whose last character comes first ends the answer.
stop.shadowed | stops | Stop: one that begins another | opinion:{other_stop}
    A stop that begins a longer one ends the answer before the longer one is complete.
stop.nested | stops | Stop: one inside a longer one
    A stop inside a longer one that is never complete ends the answer right before it.
stop.after_space | stops | Stop: after white space
    White space before a stop is part of the answer.
stop.among_others | stops | Stop: one in a list of four | quick
    {exact}, whichever stop of a list it is.
stop.alike | stops | Stop: one of several that begin alike
    {exact}, also where other stops begin as it does.
stop.recurring_prefix | - | Stop: never complete, though its beginning recurs
    A stop that is never complete changes nothing, however often its beginning occurs.
stop.held_at_the_end | - | Stop: begun by the last characters, never complete | quick
    Text that could have become a stop is part of the answer when the answer ends.
stop.last_characters | stops | Stop: the last characters
    {exact}, also where the stop is the very end of the answer.
stop.alike_at_the_end | stops | Stop: the last characters, which begin another
    {exact}, also where the answer ends before the other stop can be complete.
stop.very_first | stops | Stop: the very beginning | quick
    A stop that is the first character leaves an empty answer.
stop.unicode | stops | Stop: beyond ASCII
    {exact}, also where the stop is not ASCII.
stop.emoji | stops | Stop: an emoji
    {exact}, also where the stop has four bytes.
stop.joined | - | Stop: inside a joined character | extension
    A stop matches code points, also where several are shown as one character.
stop.after_emoji | stops | Stop: after an emoji
    {exact}, also after an emoji, which loses no text.
reason.natural | the reason | The reason without stops | quick
    An answer to a request without stops is not said to be ended by one.
stops.sticky | requests without stops | Stops of the request before
    A request without stops has none, whatever the request before it had.
stops.concurrent | stops | Stops of requests at the same time
    Requests at the same time each have their own stops.
stops.system | stops | A stop beside a system message | quick
    With a system message a stop {ends}.
stops.turn | stops | A stop in a second turn
    In a second turn a stop {ends}.
stops.tools | stops | A stop beside tools
    With tools that are not called a stop {ends}.
stops.result | stops | A stop after a tool's result
    Who calls a tool takes its result, and after it a stop {ends}.
stops.temperature | stops | A stop at a temperature
    At a temperature above 0 no answer contains the stop.
stops.short | stops | A stop in a short answer | quick
    In an answer of a few characters a stop {ends}.
stops.late | stops | A stop late in an answer
    After more than 300 tokens a stop {ends}.
limit | the limit | A limit of tokens | quick
    The limit ends the answer and is named as the reason.
limit.completion_tokens | the limit's newer name | The limit by its newer name
    max_completion_tokens ends the answer, as max_tokens does.
limit.held | - | Text held at the limit
    Text that could have become a stop is part of the answer when the limit ends it.
limit.stop_on_last_token | the reason | A stop on the last token | opinion:stop_lost_to_limit
    A stop that the last allowed token completes is named as the reason.
limit.stop_before | stops | A stop right before the limit
    A stop that is complete a token before the last allowed one ends the answer.
thinking.off | thinking | Thinking switched off | extension
    With thinking switched off no tag of it is in the text, nor any thinking if it can be.
thinking.streamed | - | Thinking in streams
    A stream has the thinking that the whole answer has.
thinking.answer | stops | A stop in the answer after thinking
    A stop that occurs in the answer alone {ends}, also after thinking.
thinking.stop | - | A stop that occurs in thinking only | extension
    A stop that occurs in the thinking alone does not take the answer away.
thinking.both | - | A stop that occurs in thinking and answer | extension
    A stop that occurs in both leaves the thinking whole and ends the answer.
stops.none | requests without stops | No stops: an empty list, null
    An empty list, or null, means that there are no stops.
stops.string | one stop without a list | A bare string for one stop | unstated:refused
    One stop may stand without a list; it is the whole string, not each of its characters.
stops.blank | - | A stop of white space
    A stop of white space is refused, or is a stop like any other.
stops.token_ids | stop token ids | Stop token ids
    A token whose id is listed ends the answer.
stops.many | - | More stops than four
    Every stop of a list counts, or the list is refused.
stops.long | stops | A long stop
    A long stop ends the answer where it is complete, and only there.
stops.literal | stops | Stops that resemble the text
    A stop is text: its case counts; it is no pattern, no escape, and no list with commas;
    what is in the prompt is no match.
stops.code_points | - | Stops of other code points | extension
    A stop matches the same code points by: no normalisation, no other line breaks.
choices.count | several choices | Several choices
    As many choices come as are asked for, each with its own index, text and reason.
choices.stop | several choices | A stop in several choices
    Each of several choices ends at the stop.
logprobs.stop | logprobs | Logprobs beside a stop
    Logprobs are listed for the tokens of the text, not for those behind the stop, and the
    reason is given with them, too.
tools.call | tool calls | A call of a tool
    A call is the same whole and streamed, and the reason says that it is one.
tools.limit | the reason | A call that the limit cuts
    A call that the limit cuts ends with the limit as its reason, whole and streamed.
tools.stop | - | A stop inside the arguments of a call | extension
    A stop inside a call leaves no half call, and streams show the text that whole answers
    show.
tools.choice | tool calls | Whether a tool is called
    A call is made where tool_choice requires it, and none where it rules calls out.
limit.thinking | the limit | A limit after thinking
    The limit ends an answer after thinking, whose tokens count.
structured.stop | - | A stop in structured output | extension
    A stop ends an answer of a given structure like any other.
request.default | requests that do not say stream | A request that does not say stream
    Where a request does not say whether it wants a stream, the API's default decides.
usage.counts | usage | Counts of tokens | quick
    No count is negative, prompts and answers with text have tokens, and totals are sums.
usage.streamed | - | Counts of streamed answers
    The same answer has the same count of tokens, whole or streamed.
usage.chunk | the counts of streams | The chunk with the counts | quick
    Streams have counts where they are asked for: once, in a chunk without choices.
usage.stop | usage | Counts of tokens with a stop
    All tokens generated are counted, those of the stop included.
answers.agree | usage | All answers beside each other | quick
    All answers have a reason and counts if most have them.
stream.pace | the pace of streams | The pace of a stream
    The first piece of a stream comes long before the last.
form.streamed | streams | Events of streamed answers | quick
    Every stream has the events of its dialect, in their order, and ends.
form.whole | the fields of an answer | Fields of whole answers | quick
    Every whole answer has the fields of its dialect.
stream.framing | streams | Streams as such | quick
    A stream is sent where one is asked for, with its content type, and it ends.
stops.empty | - | An empty stop | quick harm
    An empty stop is refused or ignored, whole and streamed; it never matches.
hang_up.streamed | - | Clients that leave a stream | extension harm
    After clients have left a stream the next one is answered as soon as ever.
errors.json | errors | A body that is not JSON | quick harm
    A broken body {refused}
errors.prompt | wrong types | A number for the prompt | harm
    A wrong type {refused}
errors.limit | wrong types | A word for the limit of a stream | harm
    A wrong type {refused}
errors.stop_object | wrong types | An object for the stops | harm
    A wrong type {refused}
errors.stop_number | wrong types | A number for the stops | quick harm
    A wrong type {refused}
errors.stop_item | wrong types | A number among the stops of a stream | harm
    A wrong type {refused}
"""


class Level(StrEnum):
    """How binding a case is.

    A specification is in the reference of the dialect's vendor. An extension is in common use but
    in no vendor's reference. An opinion is an expectation of users without any reference.
    """

    SPECIFICATION = "specification"
    EXTENSION = "extension"
    OPINION = "opinion"


@dataclass(frozen=True, slots=True)
class Case:
    """A rule that the probe checks."""

    check_id: str
    title: str
    rule: str
    topic: str
    # Whether it is an extension even where the vendor states its topic.
    is_extension: bool
    is_quick: bool
    # Its requests may harm a server, so they run last, after all dialects.
    may_harm: bool
    # The faults that are an opinion in every dialect.
    opinions: frozenset[str]
    # The faults that are an opinion where the vendor does not state the rule.
    unstated_opinions: frozenset[str]

    @property
    def level(self) -> Level:
        """How binding it is where the vendor states it."""
        if self.opinions:
            return Level.OPINION
        return Level.EXTENSION if self.is_extension else Level.SPECIFICATION

    def reference_in(self, dialect: WireDialect) -> Reference | None:
        return reference(dialect, self.topic)

    def level_in(self, dialect: WireDialect, codes: Iterable[str] = ()) -> Level:
        """Return the level in a dialect of a failure with the codes of some faults.

        A rule that the dialect's vendor does not state is an extension.
        """
        found = set(codes)
        is_stated = not self.is_extension and self.reference_in(dialect) is not None
        if self.opinions and found <= self.opinions:
            return Level.OPINION
        if found and found <= self.unstated_opinions and not is_stated:
            return Level.OPINION
        return Level.SPECIFICATION if is_stated else Level.EXTENSION


def _case(row: str) -> Case:
    head, *rule = row.split("\n    ")
    check_id, topic, title, *more = head.split(" | ")
    flags = "".join(more).format(other_stop=_OTHER_STOP).split()
    faults = {name: codes.split(",") for name, _, codes in (flag.partition(":") for flag in flags)}
    return Case(
        check_id,
        title,
        " ".join(rule).format(exact=_EXACT, ends=_ENDS, refused=_REFUSED),
        topic,
        "extension" in flags,
        "quick" in flags,
        "harm" in flags,
        frozenset(faults.get("opinion", ())),
        frozenset(faults.get("unstated", ())),
    )


CASES = tuple(_case(row) for row in re.split(r"\n(?=\S)", _TABLE.strip()))
_BY_ID = {case.check_id: case for case in CASES}


def case_of(check_id: str) -> Case:
    """Return the case with an id."""
    return _BY_ID[check_id]
