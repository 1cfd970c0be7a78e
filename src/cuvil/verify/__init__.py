"""An artifact against its source."""
