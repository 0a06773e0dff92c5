"""What a person sees: view-models, panels, widgets and the main window. Knows no HTTP and no MLX.

Layers, upper ones may use lower ones: ``main_window`` · ``panels`` · ``viewmodels`` beside
``widgets`` · the pure modules ``theme``, ``stylesheet``, ``icons``, ``wording``, ``visible``.
Everything runs on the main thread, in the one loop that Qt and asyncio share.
"""
