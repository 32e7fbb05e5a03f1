"""What was let in and decided, as far as the lists of a service need it."""
