"""Conversations on screen: their list, the messages, the composer, and the state behind them."""
