"""What every dialect needs for one HTTP request and its answer: context, body, stream, errors."""
