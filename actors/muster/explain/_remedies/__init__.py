"""Remedies: changes each of which gets an ask bound, found by trying them.

They see the state through a case, and change only copies of it.
"""
