"""Who may use the server: addresses, origins, keys, certificates."""
