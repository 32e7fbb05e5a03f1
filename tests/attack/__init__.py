"""Attacks on a running service: requests that make no sense."""
