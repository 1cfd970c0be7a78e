"""From a user's model to canonical IR; the only importers of the source frameworks."""
