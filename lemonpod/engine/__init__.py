"""One running engine, whatever runs it, and the pool of them."""
