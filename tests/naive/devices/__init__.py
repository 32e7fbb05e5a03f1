"""Devices in the naive model, and the scenarios that are about them."""
