"""Settings: options of the command line, environment variables, files, and the API key."""
