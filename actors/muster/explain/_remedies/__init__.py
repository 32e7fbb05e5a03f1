"""Remedies: changes of which each gets an ask bound, found by trying them.

They know the state through a case, and change only copies of it.
"""
