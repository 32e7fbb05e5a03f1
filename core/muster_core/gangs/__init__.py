"""Gangs: what defines one, the states that it goes through, and the machine that owns it."""
