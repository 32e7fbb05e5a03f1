"""Telling the outside what was decided: the store, the journal, observers, handles, callers."""
