"""The .cuvilpkg file: write, check, map."""
