"""Models worth a try, and the choice among them for this machine's memory.

The sizes were written down by hand on ``WRITTEN_ON``, rounded to 10 MB. They decide which models
are suggested, and are shown while the hub cannot be reached.
"""

from dataclasses import dataclass
from datetime import date

from engine.library.hub_models import HubModel
from engine.library.memory_need import USUAL_CONTEXT, CacheSize, Fit, Memory, need_of

WRITTEN_ON = date(2026, 11, 22)


@dataclass(frozen=True, slots=True)
class SuggestedModel:
    """A model that is worth a try."""

    name: str
    size_mb: int
    token_bytes: int
    license: str
    purpose: str
    summary: str = ""

    def model(self) -> HubModel:
        """Return it as a hub would describe it; downloads and day are not known."""
        size = self.size_mb * 1_000_000
        need = need_of(size, CacheSize(self.token_bytes), USUAL_CONTEXT)
        return HubModel(self.name, size, bits=4, license=self.license, need=need)


# From small to large: the size, the bytes of a token in the cache, the license and the purpose.
# The models for newcomers have a summary too.
SUGGESTIONS = (
    SuggestedModel("mlx-community/Qwen3-0.6B-4bit", 340, 114_688, "apache-2.0",
        "very small and quick",
        "Quick answers to simple questions, and short texts."),
    SuggestedModel("mlx-community/Llama-3.2-1B-Instruct-4bit", 700, 32_768, "llama3.2",
        "small and quick"),
    SuggestedModel("mlx-community/gemma-3-1b-it-4bit", 730, 26_624, "gemma",
        "small, many languages"),
    SuggestedModel("mlx-community/Qwen3-1.7B-4bit", 970, 114_688, "apache-2.0",
        "small, can reason",
        "Everyday questions and short texts; it can think before it answers."),
    SuggestedModel("mlx-community/Llama-3.2-3B-Instruct-4bit", 1_810, 114_688, "llama3.2",
        "everyday questions"),
    SuggestedModel("mlx-community/Qwen3-4B-Instruct-2507-4bit", 2_260, 147_456, "apache-2.0",
        "all-rounder",
        "Questions, writing and summaries in many languages, and short programs."),
    SuggestedModel("mlx-community/Qwen2.5-Coder-7B-Instruct-4bit", 4_280, 57_344, "apache-2.0",
        "programs"),
    SuggestedModel("mlx-community/Qwen3-8B-4bit", 4_610, 147_456, "apache-2.0",
        "all-rounder that can reason",
        "Writing, languages and programs; it can think before it answers."),
    SuggestedModel("mlx-community/Qwen3-14B-4bit", 8_310, 163_840, "apache-2.0",
        "reasoning and languages"),
    SuggestedModel("mlx-community/gpt-oss-20b-MXFP4-Q8", 12_100, 49_152, "apache-2.0",
        "reasoning and tools",
        "Reasoning, programs and the use of tools."),
    SuggestedModel("mlx-community/Qwen3-30B-A3B-Instruct-2507-4bit", 17_180, 98_304, "apache-2.0",
        "large, yet quick",
        "Demanding questions, long texts and programs, and quick for its size."),
    SuggestedModel("mlx-community/Qwen3-Coder-30B-A3B-Instruct-4bit", 17_180, 98_304, "apache-2.0",
        "programs and tools"),
    SuggestedModel("mlx-community/Qwen3-32B-4bit", 18_430, 262_144, "apache-2.0",
        "careful reasoning"),
    SuggestedModel("mlx-community/Llama-3.3-70B-Instruct-4bit", 39_700, 327_680, "llama3.3",
        "broad knowledge"),
    SuggestedModel("mlx-community/gpt-oss-120b-MXFP4-Q8", 63_400, 73_728, "apache-2.0",
        "the most able one here",
        "Hard questions, long reasoning and the use of tools."),
)  # fmt: skip


def first_models(memory: Memory) -> tuple[SuggestedModel, ...]:
    """Return the model recommended to newcomers, then the smallest and the largest that fit.

    The recommended one is a download of minutes. All leave a quarter of the memory that models may
    use to longer conversations.
    """
    fitting = [model for model in _fitting(memory.usable * 3 // 4) if model.summary]
    if not fitting:
        return ()
    quick = [model for model in fitting if model.size_mb <= 4_000]
    return tuple(dict.fromkeys((quick[-1], fitting[0], fitting[-1])))


def suggestions(memory: Memory) -> tuple[SuggestedModel, ...]:
    """Return up to six that fit a machine's memory, from a small one to the largest.

    Memory that other programs use at the moment counts as free, so the list stays the same.
    """
    fitting = _fitting(memory.usable)
    if len(fitting) <= 6:
        return tuple(fitting)
    return tuple(fitting[round(number * (len(fitting) - 1) / 5)] for number in range(6))


def _fitting(memory_bytes: int) -> list[SuggestedModel]:
    memory = Memory(memory_bytes, memory_bytes)
    return [model for model in SUGGESTIONS if model.model().fit(memory) is Fit.FITS]
