"""Strict order and backfill of the naive model: scopes, estimates, reservations, forecasts."""
