"""Chooses stops from answers, so that what each of them must do is known."""
