"""Encodings of feeds: from bytes to raw events and back.

They do not know what an event means.
"""
