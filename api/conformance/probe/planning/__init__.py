"""Chooses stops from answers, so that the effect of each is known."""
