"""A second, smaller model that guesses what the loaded one will write."""
