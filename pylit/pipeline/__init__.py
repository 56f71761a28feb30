"""One build: its stages in order, what they remember, and the processes that do the work."""
