"""What runs beside the scheduler: signals, the heartbeat, commands, and reading files again."""
