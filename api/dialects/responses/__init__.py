"""Responses, ``POST /v1/responses``."""
