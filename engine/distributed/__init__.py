"""One model on several machines: rank 0 decides everything, the others do the same with it."""
