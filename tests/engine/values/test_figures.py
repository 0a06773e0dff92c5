from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Speculation, Timing, Usage
from engine.values.figures import figures


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
