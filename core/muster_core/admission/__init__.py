"""Admission: checks events against the registry, and turns them into messages to owners.

It decides nothing about placing asks.
"""
