"""The fake mail provider: stands alone, knows nothing of the harness."""
