"""What a person sees: view-models, panels, widgets and the main window. Knows no HTTP and no MLX."""
