"""Readers of tool calls that are still being written: they give names and arguments early.

mlx-lm's parser parses a model's calls once they are complete, and its result is what counts. A
reader follows the same text while it grows and gives the parts of that result that are already
certain. Where a text leaves the regular form of its format, the reader stops, and the rest follows
when the call is complete.

``arriving`` holds the text and the parts found in it, ``json_text`` rewrites JSON, and
``parameters`` the values of formats that are not JSON. The other modules have one function per
format, and ``known`` finds it.
"""
