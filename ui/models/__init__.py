"""The models on this computer: the library, downloads, and the loaded model."""
