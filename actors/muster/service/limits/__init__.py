"""How much the service takes: what is in use, and what was refused."""
