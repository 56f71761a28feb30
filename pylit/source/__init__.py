"""Files -> modules, and what a name in them means."""
