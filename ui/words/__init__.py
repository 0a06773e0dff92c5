"""What the window says in plain words: verdicts, failures, text made visible; no Qt."""
