"""The recorded tokens of answers, kept on disk within a budget."""
