"""Labels, pills and other widgets that show text."""
