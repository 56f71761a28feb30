"""The code of the package, run in a child process."""
