"""Tokens that are guessed before the model computes them: sources, lengths, counts. No MLX.

``engine.inference.batching`` lets the model check several guesses in one forward pass, and keeps
only those that the model draws itself. So a guess changes how long an answer takes, never what it
says.
"""
