"""Comes back after its own pause, whatever the API asks for. The rest is the reference."""

import sys

sys.path.insert(0, "../../implementations/mail-worker-python")
from worker import Worker


class Mine(Worker):
    def wait_of(self, outcome):
        return 0.0


Mine().run()
