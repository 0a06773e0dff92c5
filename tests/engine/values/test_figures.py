from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage
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


def test_figures_that_do_not_exist_are_left_out() -> None:
    empty = Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing())
    assert figures(empty) == ("0 tokens",)
