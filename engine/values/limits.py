"""The limits of the engine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the engine.

    Attributes:
        max_rows: Answers that are generated together.
        max_waiting: Requests that may wait behind them; more are refused.
        context_bytes: Most bytes for the context of all answers that are generated together; None
            for the memory that is free once the model is loaded.
        prompt_cache_bytes: Most bytes of caches kept for earlier prompts.
        prompt_cache_bits: 8 to keep them in 8 bits; None for as many as the model computes with.
        prefill_chunk: Most tokens of a prompt read between two decode steps.
        plain_decoding: Whether each token is computed by itself. If not, the engine drafts tokens
            and checks several at once where that is faster; the answer is the same.
        memory_bytes: Most bytes for the weights and caches of all models together; None for the
            memory that this machine lets models use.
        stuck_after_s: How long a model may show no progress, in a step or in its load, before it
            counts as stuck.
    """

    max_rows: int = 32
    max_waiting: int = 256
    context_bytes: int | None = None
    prompt_cache_bytes: int = 1 << 30
    prompt_cache_bits: int | None = None
    prefill_chunk: int = 512
    plain_decoding: bool = False
    memory_bytes: int | None = None
    stuck_after_s: float = 120.0
