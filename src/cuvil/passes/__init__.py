"""The passes of the pipeline, one file each."""
