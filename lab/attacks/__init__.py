"""Attacks that measure what a release gives away; a new one is a file here."""
