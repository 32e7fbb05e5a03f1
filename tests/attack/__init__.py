"""Attacks on a running service: requests that make no sense, and clients that do not behave."""
