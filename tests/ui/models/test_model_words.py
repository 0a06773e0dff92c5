"""What the window says of models: sizes, fit, progress."""

from pathlib import Path

from engine.inference.backend import LoadProgress
from engine.library.local_models import FoundModel, Origin
from engine.library.memory import Fit, Memory, MemoryNeed
from engine.wording import size_in_words
from ui.models.downloads import Download
from ui.models.model_words import (
    download_words,
    duration,
    facts,
    fit_words,
    loading_words,
)


def test_a_download_shows_bytes_rate_and_time_left() -> None:
    from engine.library.hub import DownloadProgress

    fetching = DownloadProgress("fetching", 1_100_000_000, 2_300_000_000)
    assert download_words(fetching, 12_000_000, 100) == (
        "1.1 GB of 2.3 GB  ·  12.0 MB/s  ·  2 min left"
    )
    assert download_words(DownloadProgress("asking"), 0, None) == "Contacting Hugging Face"


def test_the_rate_is_that_of_the_last_seconds(tmp_path: Path) -> None:
    one = Download("a/b", tmp_path)
    from engine.library.hub import DownloadProgress

    one._latest = DownloadProgress("fetching", 0, 1000)
    one.mark()
    assert (one.bytes_per_s, one.left_s) == (0.0, None)
    one._marks.clear()
    one._marks.extend([(10.0, 0), (12.0, 500)])
    one._latest = DownloadProgress("fetching", 500, 1000)
    assert (one.bytes_per_s, one.left_s) == (250.0, 2.0)


def test_sizes_and_times_are_written_as_people_say_them() -> None:
    assert [size_in_words(n) for n in (12, 1500, 3_800_000, 4.25e9)] == [
        "12 bytes",
        "1.5 kB",
        "3.8 MB",
        "4.2 GB",
    ]
    assert [duration(s) for s in (0.2, 59, 100, 5400)] == ["1 s", "59 s", "2 min", "1 h 30 min"]


def test_a_model_that_barely_fits_is_shown_with_the_free_memory() -> None:
    need = MemoryNeed(8_000_000_000, 1_000_000_000, 0, 8192)
    words = fit_words(need, Fit.TIGHT, Memory(16_000_000_000, 6_000_000_000))
    assert words == (
        "It needs about 9.0 GB with 8,192 tokens of context; 6.0 GB are free now. "
        "Close other programs first."
    )
    assert fit_words(need, Fit.FITS, Memory(1, 1)) == ""


def test_waiting_for_answers_before_loading_is_shown() -> None:
    assert loading_words(None, 0, 1) == "Waiting for an answer to end"
    assert loading_words(LoadProgress("libraries"), 3.2, 0) == "Starting MLX  ·  3 s"


def test_the_words_of_a_long_load_change_every_second() -> None:
    weights = LoadProgress("weights", 1, 2)
    assert len({loading_words(weights, second, 0) for second in range(1, 200)}) == 199
    assert loading_words(weights, 125.9, 0).endswith("2 min 5 s")


def test_a_models_facts_are_one_line() -> None:
    found = FoundModel(
        "a/b", Path("/x"), Origin.HUGGING_FACE, 2_300_000_000, "qwen3", 40_960, bits=4
    )
    assert facts(found, 0) == (
        "qwen3  ·  4 bit  ·  2.3 GB  ·  40,960 tokens of context  ·  Hugging Face"
    )
