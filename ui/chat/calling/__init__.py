"""Carries out the calls that a model makes: what it may call, who allows it, what comes of it."""
