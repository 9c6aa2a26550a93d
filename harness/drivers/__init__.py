"""How a target is reached: one module per way."""
