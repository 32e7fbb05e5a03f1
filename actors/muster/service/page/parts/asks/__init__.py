"""Asks, applications and gangs: finding them, and one of them with its history.

An ask says all reasons why it is not running and what would help; a gang sums up its members'.
"""
