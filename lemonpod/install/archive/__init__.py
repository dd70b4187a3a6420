"""Archives that nobody trusts, unpacked into a folder of their own."""
