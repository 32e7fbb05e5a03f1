"""The log of the service on standard error, as text or JSON."""
