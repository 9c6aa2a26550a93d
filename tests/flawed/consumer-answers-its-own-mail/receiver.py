"""Takes what the provider tells of its mail for a message: a bounce is answered, too."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox


class Talkative(Inbox):
    def post(self, request):
        event = request.body
        if self.believes(request) and event["type"] == "email.bounced":
            data = event["data"]
            again = {"from": data["to"][0], "subject": data["subject"], "text": "Did my answer reach you?"}
            return self.answer(event["event_id"], again)
        return super().post(request)


Talkative().serve()
