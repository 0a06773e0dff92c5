"""The wire dialects over aiohttp: vendors' spellings around one engine. Knows no Qt and no MLX."""
