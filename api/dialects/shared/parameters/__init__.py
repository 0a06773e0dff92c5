"""Parameters that several dialects share: their types and their meaning. Pure."""
