"""The list of runs in the inspector: this conversation's, and recent ones of others."""
