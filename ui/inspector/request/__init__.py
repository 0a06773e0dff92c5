"""The request as the model read it and as each API writes it."""
