"""One question answered twice, in two columns: what differs, both answers, the one that is kept."""
