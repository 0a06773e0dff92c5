"""What any process of the program may do, and processes that may die of their work. No MLX."""
