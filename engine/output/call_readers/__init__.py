"""Readers of tool calls that are still being written: names and arguments, as soon as certain.

A model's calls are parsed by mlx-lm's parser once they are complete; that parse decides what a call
is. A reader follows the same text while it grows and tells what the parse will say, as far as
that is certain. Where a text leaves the regular form of its format, its reader says no more, and
what is missing follows when the call is complete.

``arriving`` holds the text and what has been found in it, ``json_text`` rewrites JSON,
``parameters`` the values of formats that are not JSON. The other modules have a function per
format, and ``known`` finds it.
"""
