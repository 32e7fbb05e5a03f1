"""What runs beside the scheduler: signals, the heartbeat, and reading files again."""
