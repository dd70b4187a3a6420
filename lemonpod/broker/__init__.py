"""Who may use what, and when."""
