"""How long held text has waited, while it grows at its end and is released from its beginning.

Pure; any thread.
"""

from collections import deque

from engine import TokenTrace


class HeldText:
    """The text that the stop matcher holds back, each part with the time at which it came.

    Attributes:
        text: What is held now; empty for nothing.
    """

    def __init__(self) -> None:
        self.text = ""
        self._parts: deque[tuple[int, float]] = deque()  # characters, and since when they wait

    @property
    def since_s(self) -> float | None:
        """When the oldest held character came; None while nothing is held."""
        return self._parts[0][1] if self._parts else None

    def take(self, token: TokenTrace, time_s: float) -> list[tuple[int, float]]:
        """Note what is held after a token.

        Args:
            token: The token.
            time_s: When it came.

        Returns:
            The characters that no longer wait, oldest first: how many, and since when they waited.
        """
        self.text = token.held
        if not token.held and not self._parts:
            return []  # as nearly always
        if token.piece:
            self._parts.append((len(token.piece), time_s))
        surplus = sum(count for count, _ in self._parts) - len(token.held)
        if surplus < 0:  # text that was held for a tag is in no piece yet
            self._parts.append((-surplus, time_s))
        released: list[tuple[int, float]] = []
        while surplus > 0:
            count, since_s = self._parts.popleft()
            if count > surplus:
                self._parts.appendleft((count - surplus, since_s))
                count = surplus
            surplus -= count
            released.append((count, since_s))
        return released
