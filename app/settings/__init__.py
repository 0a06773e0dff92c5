"""What a person chose: options of the command line, variables, settings files, and the API key."""
