"""A running answer: requests it, collects it, shows it at a readable pace, and saves it."""
