"""What a person sees. Knows no HTTP and no MLX.

Each subject is one room with its state beside its panels; ``kit`` holds widgets that know no
subject, ``records`` and ``words`` need no Qt. The contracts in pyproject.toml order the rooms.
Everything runs on the main thread, in the one loop that Qt and asyncio share.
"""
