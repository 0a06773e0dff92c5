"""Tokens that are guessed before the model computes them: sources, lengths, counts. No MLX.

``engine.inference.batching`` lets the model check guesses, several in one forward pass, and hands
on only those that the model draws itself. So a guess changes how long an answer takes, never what
it says.
"""
