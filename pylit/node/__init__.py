"""Node.js, which typesets mathematics: finding it, setting up its packages, and talking to it."""
