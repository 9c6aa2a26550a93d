"""The catalogue of scenarios: one data file each, a folder per family."""
