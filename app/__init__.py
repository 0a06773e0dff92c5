"""Composes engine, api and ui into one program; the only package that knows the others."""

__version__ = "0.1.0"
