"""Quire from Python."""
