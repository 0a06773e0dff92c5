"""One answer under way: asked for, collected, shown at a pace that people can follow, and kept."""
