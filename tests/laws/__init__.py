"""The laws of the house, read from the source itself."""
