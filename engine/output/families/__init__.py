"""Families of models: how each marks reasoning, tool calls and the answer in its output.

A family is one object. ``family`` is its interface, ``tags`` and ``headers`` are the two kinds, and
``known`` finds the family of a loaded model or of a saved run. To add a kind, write its module and
name it in ``known``.
"""
