"""What comes in: bodies of requests as events, who may send them, and what became of them."""
