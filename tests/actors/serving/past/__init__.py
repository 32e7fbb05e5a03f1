"""The past: states that are made again, and spans of the kept history."""
