"""sendtwice tries to make a system send the same mail twice, and says which promise was broken."""

__version__ = "0.1.0"

__all__ = ["__version__"]
