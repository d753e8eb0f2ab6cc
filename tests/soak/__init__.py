"""Hours of trouble in a minute: `python -m tests.soak --seconds 90`; see `__main__`."""
