"""Reporters: subscribers to the runner's events. The runner knows none of them."""
