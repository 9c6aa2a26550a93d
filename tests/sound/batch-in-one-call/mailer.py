"""A batch of one text to many is one hand-over with many recipients; all of it is sent, or nothing."""

import json
import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Sound(Rasket):
    def write_down(self, call):
        alike = {json.dumps([mail["from"], mail["subject"], mail["text"]]) for mail in call.mails}
        if call.batch and len(alike) == 1:
            call.mails = [{**call.mails[0], "to": [address for mail in call.mails for address in mail["to"]]}]
        return super().write_down(call)


Sound().serve()
