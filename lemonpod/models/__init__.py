"""Which models are registered, and where their files are. Reads only what it is pointed at."""
