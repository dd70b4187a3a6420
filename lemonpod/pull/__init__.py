"""Fetching models from the Hugging Face hub. The hub's own library runs in a process of its own."""
