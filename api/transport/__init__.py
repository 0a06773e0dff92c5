"""One HTTP request and its answer in any dialect: its context, body, stream and errors."""
