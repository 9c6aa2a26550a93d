"""Keeps its key and asks no clock: a job that is redriven when the API has forgotten the key is a new mail."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    RETENTION = float("inf")


main(Flawed)
