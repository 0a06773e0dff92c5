"""What is kept and shown, as plain data: conversations, messages, runs, presets; no Qt."""
