"""Families of models: how each marks reasoning, tool calls and the answer in its output.

A family is one object. ``family`` says what the engine asks of it, ``tags`` and ``headers`` are the
kinds there are, and ``known`` finds the family of a loaded model or of a saved run. To add a kind,
write its module and name it in ``known``.
"""
