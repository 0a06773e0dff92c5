"""Tool calls: what a model has written of them so far, and each whole call when it is complete.

mlx-lm's parser parses a model's calls once they are complete, and its result is what counts. A
reader follows the same text while it grows and gives the parts of that result that are already
certain. Where a text leaves the regular form of its format, the reader stops, and the rest follows
when the call is complete.

``call_text`` holds the text and the parts found in it and rewrites JSON, ``parameters`` the values
of formats that are not JSON. ``calls`` follows the calls of one answer and finds the reader of a
format; the other modules have one function per format.
"""
