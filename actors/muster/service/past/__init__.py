"""The past: the state as it was at an instant of the kept history, and what happened in a span.

It reads the state directory as any reader does, in threads, and never asks the running scheduler.
"""
