"""Pictures: their features from mlx-vlm's towers, and their places in mlx-lm's text models."""
