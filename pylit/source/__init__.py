"""Python files to `Module`: found, decoded, parsed, and cut into sections of notes and code."""
