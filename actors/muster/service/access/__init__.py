"""Who may do what: tokens, roles, users."""
