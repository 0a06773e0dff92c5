"""What a Hugging Face hub says of models that are not on this machine yet."""
