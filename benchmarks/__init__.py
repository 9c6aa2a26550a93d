"""What sendtwice costs and how exact it is, measured against others in the same run. ``python benchmarks/run.py``."""
