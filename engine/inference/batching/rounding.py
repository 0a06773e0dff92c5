"""How much the rounding of passes over several tokens differs, measured on the running machine.

Sums of floating-point numbers depend on their order, and a pass over several tokens may add in
another order than passes over one. Where two tokens are almost equally likely, that could change
the choice. MLX's reference kernels for the CPU give equal bits; those for GPUs do not.
"""

import mlx.core as mx

# The largest difference is multiplied by this, because not all positions were compared.
_RESERVE = 8.0
_FIRST_PROBES = 2
_PROBE_EVERY = 512


class Rounding:
    """The largest difference between two ways to compute the same log-probabilities."""

    def __init__(self) -> None:
        self._most = 0.0
        self._probes = 0
        self._checks = 0

    def is_probe_due(self) -> bool:
        """Return whether the next pass should be compared; called once before each pass."""
        self._checks += 1
        return self._probes < _FIRST_PROBES or self._checks % _PROBE_EVERY == 0

    def compare(self, several: mx.array, single: mx.array) -> None:
        """Compare log-probabilities, of any shape."""
        self._probes += 1
        # Impossible tokens are at minus infinity in both.
        apart = mx.where(several == single, 0.0, mx.abs(several - single)).max()
        self._most = max(self._most, float(apart.item()))  # type: ignore[arg-type]

    def are_close(self, logprobs: mx.array) -> mx.array | None:
        """Return for each position whether rounding could change the choice of the
        likeliest token.
        """
        if not self._most:
            return None
        best = mx.argmax(logprobs, axis=-1, keepdims=True)
        first = mx.take_along_axis(logprobs, best, axis=-1)
        others = mx.put_along_axis(logprobs, best, mx.array(-mx.inf, logprobs.dtype), axis=-1)
        gap = first[:, 0] - others.max(axis=-1)
        return gap <= self._most * _RESERVE

    def is_close(self, logprobs: mx.array) -> bool:
        """Return the same for one position, of shape (vocabulary,)."""
        found = self.are_close(logprobs[None])
        return found is not None and bool(found.item())
