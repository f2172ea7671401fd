"""Moves bytes and keeps promises; decides nothing (services/README.md has the topology)."""
