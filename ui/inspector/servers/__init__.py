"""Other servers: their captured answers, and probes of them."""
