"""What machine this is. The only package that looks."""
