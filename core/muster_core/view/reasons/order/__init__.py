"""Why an ask is behind others: its place in the order, and reservations that it would delay."""
