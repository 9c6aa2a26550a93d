"""What comes after a send: reading it, a person's decisions, and the provider's events. Part of careful.py."""

from plumbing import Answer


class Afterwards:
    """Every decision is a method here too."""

    def own(self, call):
        """Return a message of the caller's own tenant."""
        self.check_auth(call)
        message = self.store.get("messages", call.name)
        if message is None or message["tenant"] != call.tenant:
            raise Answer(404, {"message": "There is no such message."})
        return message

    def show(self, call):
        return 200, {"id": call.name, "status": self.own(call)["state"]}

    def draft(self, call):
        self.check_auth(call)
        self.check_validation(call)
        with self.store:
            name = self.write_down(call)[0]
            message = self.store.get("messages", name)
            self.store.put("messages", name, {**message, "state": "pending"})
        return self.answer("pending", [name])

    def check_person(self, call):
        if call.credential != "person":
            raise Answer(403, {"message": "A person decides this."})

    def approve(self, call):
        self.own(call)
        self.check_person(call)
        if not self.take_to_send(call.name):
            return 409, {"message": "This is no draft any more."}
        self.deliver(call.name, again="pending")
        message = self.store.get("messages", call.name)
        if message["state"] == "pending":
            return self.answer("failed")
        self.decided(call.name, message)
        return self.answer("unknown") if message["state"] == "unknown" else self.launched(call.name)

    def launched(self, name):
        return 200, {"id": name, "status": self.store.get("messages", name)["state"]}

    def take_to_send(self, name):
        return self.move(name, "pending", "handing")

    def reject(self, call):
        self.own(call)
        self.check_person(call)
        if not self.move(call.name, "pending", "rejected"):
            return 409, {"message": "This is no draft any more."}
        self.decided(call.name, self.store.get("messages", call.name))
        return 200, {"id": call.name, "status": "rejected"}

    def resolve(self, call):
        self.own(call)
        state = {"sent": "sent", "not_sent": "refused"}[call.body["outcome"]]
        if not self.move(call.name, "unknown", state):
            return 409, {"message": "This outcome is not open."}
        self.decided(call.name, self.store.get("messages", call.name))
        return 200, {"id": call.name, "status": state}

    def decided(self, name, message):
        """What became of a message is known now: from here on its key answers so."""
        with self.store:
            entry = message["place"] and self.store.get("entries", message["place"])
            if not entry or entry["state"] not in ("kept", "waiting") or len(entry["ids"]) != 1:
                return
            outcome = {"rejected": "refused"}.get(message["state"], message["state"])
            self.conclude(message["place"], entry, outcome, self.answer(self.named(outcome), entry["ids"]))

    def provider_event(self, call):
        with self.store:
            event, messages = call.body["data"], self.store.all("messages")
            fits = [(name, m) for name, m in messages if self.may_mean(m) and self.means(event, m)]
            if len(fits) == 1:
                name, message = fits[0]
                told = {"told": True} if message["state"] == "handing" else {"state": "sent", "reconciled": True}
                self.store.put("messages", name, {**message, **told})
                self.decided(name, {**message, **told})
        return 200, {}

    def may_mean(self, message):
        open_ = message["state"] in ("handing", "unknown")
        return open_ and self.now() - message["at"] < self.MATCHED_WITHIN

    def means(self, event, message):
        mail = message["mail"]
        same = event["from"] == mail["from"] and event["subject"] == mail["subject"]
        return same and set(event["to"]) == set(mail["to"])
