"""Muster as a scheduler of Kubernetes."""
