"""What Prometheus reads: what is counted, what is read from the state, and how it is written."""
