"""Load, failing jobs and a small cluster that obeys advice: everything that shows exitsign at work."""
