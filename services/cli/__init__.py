"""The command line: one short function per command."""
