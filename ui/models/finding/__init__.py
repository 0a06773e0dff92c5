"""Finding models on a hub: search, suggestions, a look at one, and its download."""
