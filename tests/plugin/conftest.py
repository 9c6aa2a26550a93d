"""The recipes are projects of their own: test_recipes.py runs each where it would be."""

collect_ignore = ["recipes"]
