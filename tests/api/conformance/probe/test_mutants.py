"""Whatever is spoilt in the shape of what a correct server sends is found, unless it is legal."""

import random
import re

import pytest

from api.conformance.captures.recognition import parse
from api.conformance.captures.values import Severity, WireDialect
from api.conformance.probe.values import Verdict
from tests.api.conformance.probe.family.mutants import Mutant, Mutation, mutations, sent
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.server import FamilyServer

# What a server may do: each pattern of mutations with the reason.
LEGAL = (
    # Ids are of any form, and those of calls may differ between answers.
    r"(\bid|call_id|signature) (another|twice|numbered)",
    # A moment more or less, also from chunk to chunk.
    r"created(_at)? (one more|one less|a fraction)",
    # Fields that the vendor does not require, or that clients take as null.
    r"(usage|content|signature|system_fingerprint|created_at|summary) (dropped|null)",
    r"(finish_reason|stop_reason|stop_sequence|matched_stop|incomplete_details) dropped",
    r"(matched_stop|status|type|item\.id|item_id|content_index) (dropped|null|empty)",
    # The name of the model may be left out of a part.
    r"model empty",
    # Lines that no client of the dialect reads, and a second mark of the end.
    r"event renamed",
    r"\[DONE\].*: event doubled",
    # The role may be in every chunk.
    r"role.*: event doubled",
    # Counts before the end of a stream are not final.
    r"(message_start|response\.created|generate text).*tokens",
    r"sequence_number one more",
    # A field that this event does not have, sent by the server beside its own.
    r"output_item\.added .*: (item_id|content_index)",
    # Servers list tokens by their ids, too, and any alternatives beside them.
    r"logprobs\.\S*(token|\*\.\w+) (dropped|empty|null|numbered|another|twice)",
    # Older servers do not say how long an answer is that the limit ended.
    r"finish_reason\.length (dropped|null)",
    # Ollama counts only what of a prompt is not in its cache.
    r"ollama .*prompt_eval_count (dropped|one more|one less|7)",
)


def is_legal(mutation: Mutation) -> bool:
    return any(re.search(pattern, str(mutation)) for pattern in LEGAL)


def sample(dialect: WireDialect, count: int) -> list[Mutation]:
    """Return some mutations, the same ones each time."""
    return random.Random(29).sample(list(mutations(dialect)), count)


def is_misshapen(mutation: Mutation) -> bool:
    """Return whether the shape alone of an answer shows the mutation."""
    captures = [parse(text, mutation.dialect) for text in sent(mutation)]
    return any(
        finding.severity is Severity.ERROR for capture in captures for finding in capture.findings
    )


@pytest.mark.parametrize(
    "name",
    [
        "chat text: id numbered",
        "chat text (last): object dropped",
        "chat whole: choices.*.index dropped",
        "chat tool_calls: choices.*.delta.tool_calls.*.id dropped",
        "completions text: choices.*.text dropped",
        "messages message_start: message.role dropped",
        "messages content_block_delta text_delta: delta.type another",
        "messages content_block_stop: index one more",
        "responses response.output_text.delta: item_id numbered",
        "responses response.output_item.done message (last): event dropped",
        "responses response.completed: response.output empty",
        "generate text: meta_info.id numbered",
        "ollama text (first): done a string",
        "ollama text: model numbered",
    ],
)
def test_a_spoilt_value_shows_in_the_shape_of_the_answer(name: str) -> None:
    dialect = WireDialect(name.partition(" ")[0])
    [mutation] = {one for one in mutations(dialect) if str(one) == name}
    assert is_misshapen(mutation)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", FamilyServer.DIALECTS)
def test_every_spoilt_server_is_found_unless_it_is_legal(dialect: WireDialect) -> None:
    missed = []
    for mutation in sample(dialect, 60):
        if not sent(mutation) or is_misshapen(mutation) or is_legal(mutation):
            continue
        report = report_on(Mutant(mutation))
        if report.verdict is not Verdict.FAILED:
            missed.append(str(mutation))
    assert missed == []
