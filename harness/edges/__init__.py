"""Wires between a target and others than its callers and its provider: its stores, and any two real systems."""
