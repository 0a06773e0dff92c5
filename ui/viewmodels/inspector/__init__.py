"""What the Stop Inspector shows, without widgets. Main thread unless a module says otherwise."""
