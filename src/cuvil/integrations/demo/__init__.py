"""The demonstration of models in a page: its files, the sentence encoder, the server."""
