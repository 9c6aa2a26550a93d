"""Notes the id of an event before it looks at the signature: whoever sends the id first has switched the event off."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import OK, Inbox


class Switchable(Inbox):
    def post(self, request):
        event = request.body
        with self.lock:
            self.db.execute("CREATE TABLE IF NOT EXISTS seen (id TEXT PRIMARY KEY)")
            first = self.db.execute("INSERT OR IGNORE INTO seen VALUES (?)", (event["event_id"],)).rowcount
        if not first:
            return OK
        answer = super().post(request)
        if answer[0] == 503:
            with self.lock:
                self.db.execute("DELETE FROM seen WHERE id = ?", (event["event_id"],))
        return answer


Switchable().serve()
