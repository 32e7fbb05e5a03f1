"""Processes with a store that are killed at any moment, and what the store holds then.

``python -m tests.crash`` kills; ``make crash`` does so for long. A chain is one state directory and
some lives on it, each a process that goes on where the last one was killed.
"""
