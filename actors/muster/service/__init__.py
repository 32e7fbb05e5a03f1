"""Muster as a service: what ``muster serve`` runs, in one process with the scheduler."""
