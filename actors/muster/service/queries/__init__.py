"""Queries: lists in pages, single items, and why asks are not running."""
