"""The data that is stored and shown: conversations, messages, runs, presets; no Qt."""
