"""The recipes of the documentation: each passes as it stands, and its flawed twin is caught."""

import shutil
from pathlib import Path

import pytest

from tests.plugin.inner import HERE, INI

RECIPES = HERE / "recipes"
#: What a hurried author would have written instead: a key for each attempt.
FLAWS = {
    "fastapi_dependency": ("app.py", '"Idempotency-Key": key}', '"Idempotency-Key": __import__("uuid").uuid4().hex}'),
    "celery_eager": ("tasks.py", 'f"receipt-{order_id}"', "__import__('uuid').uuid4().hex"),
    "celery_worker": ("tasks.py", "headers=headers", "headers=headers | {'Idempotency-Key': os.urandom(8).hex()}"),
    "database_rollback": ("shop.py", "headers=headers", "headers=headers | {'Idempotency-Key': uuid.uuid4().hex}"),
}
ALL = [
    pytest.param(recipe, marks=pytest.mark.slow) if recipe == "celery_worker" else recipe for recipe in sorted(FLAWS)
]


def project(pytester: pytest.Pytester, recipe: str) -> Path:
    for path in (RECIPES / recipe).glob("*.py"):
        shutil.copy(path, pytester.path / path.name)
    pytester.makefile(".ini", pytest=INI)
    return pytester.path


@pytest.mark.parametrize("recipe", ALL)
def test_a_recipe_passes(pytester: pytest.Pytester, recipe: str) -> None:
    project(pytester, recipe)

    outcomes = pytester.runpytest_inprocess("-q").parseoutcomes()
    assert outcomes.pop("passed") >= 1
    assert not outcomes


@pytest.mark.parametrize("recipe", ALL)
def test_its_flawed_twin_is_caught(pytester: pytest.Pytester, recipe: str) -> None:
    name, sound, flawed = FLAWS[recipe]
    path = project(pytester, recipe) / name
    source = path.read_text(encoding="utf-8")
    assert source.count(sound) == 1
    path.write_text(source.replace(sound, flawed), encoding="utf-8")

    result = pytester.runpytest_inprocess("-q", "-k", "response-lost")
    result.assert_outcomes(failed=1, deselected=None)
    result.stdout.fnmatch_lines(["client.response-lost: *2 mails were delivered*"])


def test_every_recipe_is_run() -> None:
    assert {path.name for path in RECIPES.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(FLAWS)
