"""The .cuvilpkg file: written, checked, mapped."""
