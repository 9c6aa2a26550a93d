"""The scenario runner and all that judges."""
