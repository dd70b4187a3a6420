"""The embedded default: a real CPU llama.cpp and a small real model."""
