"""How figures are drawn and written for readers: the report of a replay and the page share it."""
