"""The engine thread: who waits, who joins the batch, and how events reach their readers."""
