"""``fullstop --self-test``: checks that this installation works, on the demo model."""
