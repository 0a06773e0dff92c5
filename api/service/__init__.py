"""The service behind every dialect: settings, models, generations, records, metrics, errors.

Knows no vendor and no web framework.
"""
