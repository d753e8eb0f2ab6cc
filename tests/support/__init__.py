"""Shared by tests: what tests of several folders share."""
