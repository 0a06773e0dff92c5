"""One model sharded across several processes: rank 0 decides each step, the others repeat it."""
