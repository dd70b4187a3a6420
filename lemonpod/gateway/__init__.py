"""The network edge."""
