from dataclasses import replace

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import (
    BudgetEnd,
    EndDetails,
    Finished,
    PromptDifference,
    PromptPart,
    Speculation,
    Timing,
    Usage,
)
from engine.values.figures import end_facts, figures
from engine.values.request import LimitSource


def test_the_figures_are_speed_first_token_and_length() -> None:
    usage = Usage(prompt_tokens=20, output_tokens=5)
    timing = Timing(first_token_s=0.125, decode_s=0.2)
    finished = Finished(StopInfo(StopKind.EOS), usage, timing)
    assert figures(finished) == (
        "20 tok/s",
        "0.12 s to first token",
        "5 tokens",
    )


def test_guessed_and_forced_tokens_are_listed_beside_the_total() -> None:
    finished = Finished(
        StopInfo(StopKind.EOS),
        Usage(output_tokens=143),
        Timing(),
        speculation=Speculation(passes=9, guessed=80, accepted=62, forced=5),
    )
    assert figures(finished) == ("143 tokens, 62 drafted, 5 forced",)


def test_spent_budget_of_reasoning_is_shown_with_who_set_it() -> None:
    end = BudgetEnd(token_index=65, forced=3, budget=64)
    finished = Finished(
        StopInfo(StopKind.EOS), Usage(), Timing(), details=EndDetails(budget_end=end)
    )
    by_server = replace(finished, details=EndDetails(None, end, LimitSource.SERVER))
    assert figures(by_server)[-1] == (
        "thinking ended by its budget of 64, set by the server’s default, at token 66"
    )


def test_facts_have_tokens_read_again_and_options_without_effect() -> None:
    difference = PromptDifference(9, PromptPart.TOOLS, "here", "before", 1800)
    usage = Usage(prompt_tokens=2000, output_tokens=5, prompt_difference=difference)
    details = EndDetails(no_effect=("seed (the temperature is 0)", "no_such_field"))
    finished = Finished(StopInfo(StopKind.EOS), usage, Timing(total_s=1), details=details)
    facts = {fact.name: fact.value for fact in end_facts(finished)}
    assert facts["Read again"] == "1,800 tokens, because the tools differ"
    assert facts["No effect"] == "seed (the temperature is 0), no_such_field"
