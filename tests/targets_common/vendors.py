"""Careful implementations of five vendors' rules, as constants; each is played against the vendor's contract file."""

from careful import Careful

_LINK = {"Link": "<https://docs.novu.co/additional-resources/idempotency>"}


def _named(status, place, name, message):
    return status, {"statusCode": status, place: name, "message": message}


class Pylota(Careful):
    """A required key for each mailbox; what is written down is answered 202, whatever becomes of it."""

    ROUTES = (
        ("POST", "/(?:messages|reply|reply-all|forward)", "send"),
        ("POST", "/messages/([^/]+)/resolve", "resolve"),
        ("POST", "/hooks/ses", "provider_event"),
        ("GET", "/messages/([^/]+)", "show"),
    )
    KEY_REQUIRED, KEY_MAX, KEY_PATTERN = True, 255, "[ -~]*"
    SCOPE = ("tenant", "mailbox")
    STORES = {**Careful.STORES, "busy": "stored", "unknown": "stored"}
    MARKER_HEADERS, MARKER_FIELDS = {"Idempotent-Replayed": "true"}, {"deduplicated": True}
    RETENTION = 2592000
    DRY_RUN = "dry_run"
    ANSWERS = {
        "accepted": (202, {"id": "{id}", "status": "queued"}),
        "unknown": (202, {"id": "{id}", "status": "queued"}),
        "dry_run": (202, {"id": "dry-run", "status": "queued"}),
        "conflict": (409, {"code": "idempotency_conflict"}),
        "in_progress": (409, {"code": "request_in_progress"}),
        "key_missing": (400, {"code": "idempotency_key_required"}),
        "key_invalid": (400, {"code": "idempotency_key_invalid"}),
        "refused": (422, {"code": "invalid_message"}),
        "provider_refused": (422, {"code": "message_refused"}),
        "unauthorized": (401, {"code": "unauthorized"}),
        "rate_limited": (429, {"code": "too_many_requests"}),
        "failed": (503, {"code": "not_sent"}),
    }


class Postfleet(Careful):
    """A key in the body for each mailbox; a mailbox may need a person's approval."""

    ROUTES = (
        ("POST", "/api/v1/send", "send"),
        ("POST", "/api/v1/drafts", "draft"),
        ("POST", "/api/v1/drafts/([^/]+)/approve", "approve"),
        ("POST", "/api/v1/drafts/([^/]+)/reject", "reject"),
        ("POST", "/hooks/provider", "provider_event"),
        ("GET", "/api/v1/messages/([^/]+)", "show"),
    )
    KEY = "body:client_id"
    SCOPE = ("tenant", "mailbox")
    FINGERPRINT, FIELDS = ("body",), ("to", "subject", "text", "in_reply_to")
    REPLAYS_AS = {201: 200}
    APPROVES = "needs-approval"
    ANSWERS = {
        "accepted": (201, {"id": "{id}", "status": "sent"}),
        "pending": (202, {"draft_id": "{id}", "status": "pending_approval"}),
        "conflict": (409, {"code": "idempotency_conflict"}),
        "in_progress": (409, {"code": "idempotency_in_progress"}),
        "unknown": (502, {"code": "delivery_outcome_unknown"}),
        "key_invalid": (400, {"code": "invalid_client_id"}),
        "refused": (422, {"code": "invalid_message"}),
        "provider_refused": (422, {"code": "message_refused"}),
        "unauthorized": (401, {"code": "unauthorized"}),
        "rate_limited": (429, {"code": "too_many_requests"}),
        "failed": (503, {"code": "not_sent"}),
    }

    def read(self, body):
        mail = super().read(body)
        return {**mail, "from": (body or {}).get("mailbox_id") or "default"}

    def means(self, event, message):
        same = event["subject"] == message["mail"]["subject"]
        return same and set(event["to"]) == set(message["mail"]["to"])


class Rasket(Careful):
    """A key for each team, over single sends and batches; refusals leave none."""

    ROUTES = (
        ("POST", "/emails", "send"),
        ("POST", "/emails/batch", "send"),
        ("POST", "/inbox/conversations", "send"),
        ("GET", "/emails/([^/]+)", "show"),
    )
    MARKER_HEADERS = {"Idempotent-Replayed": "true"}
    RETENTION = 88000
    ANSWERS = {
        "accepted": (200, {"id": "{id}"}),
        "conflict": (
            *_named(409, "name", "invalid_idempotent_request", "This key was used with a different payload."),
            {"Link": '<https://rasket.example/keys>; rel="help"'},
        ),
        "in_progress": _named(409, "name", "concurrent_idempotent_requests", "The first request is still running."),
        "key_invalid": _named(400, "name", "invalid_idempotency_key", "A key has 1 to 256 characters."),
        "refused": _named(422, "name", "missing_required_field", "The mail is not complete."),
        "provider_refused": _named(422, "name", "validation_error", "The mail was refused."),
        "unauthorized": _named(401, "name", "missing_api_key", "Who are you?"),
        "rate_limited": (*_named(429, "name", "rate_limit_exceeded", "Too many requests."), {"Retry-After": "1"}),
        "failed": _named(503, "name", "application_error", "The mail was not sent. Try again."),
        "unknown": _named(502, "name", "delivery_outcome_unknown", "The mail may have been sent."),
    }


class Novu(Careful):
    """A key for each organization; every outcome is stored, and a request in flight outranks a mismatch."""

    ROUTES = (("POST", "/v1/events/trigger(?:/broadcast)?", "send"),)
    ORDER = ("auth", "rate_limit", "key", "record", "validation")
    STATES = ("in_progress", "mismatch", "replay")
    KEY_MAX, EMPTY_KEY = 255, "absent"
    FINGERPRINT = ("body",)
    KEEPS_FIELD_ORDER, DROPS_EMPTY = True, False
    STORES = dict.fromkeys(("sent", "validation", "refused", "busy", "unknown"), "stored")
    MARKER_HEADERS = {"Idempotency-Replay": "true"}
    KEY_ECHO = "Idempotency-Key"
    RETENTION, COUNTS_FROM = 86400, "done"
    ANSWERS = {
        "accepted": (201, {"data": {"acknowledged": True, "status": "processed", "transactionId": "{id}"}}),
        "conflict": (422, {"statusCode": 422, "message": "Another payload."}, _LINK),
        "in_progress": (409, {"statusCode": 409, "message": "Still running."}, {**_LINK, "Retry-After": "1"}),
        "key_invalid": (400, {"statusCode": 400, "message": "A key has at most 255 characters."}),
        "refused": (400, {"statusCode": 400, "message": "The trigger is not complete."}),
        "provider_refused": (400, {"statusCode": 400, "message": "The mail was refused."}),
        "unauthorized": (401, {"statusCode": 401}),
        "rate_limited": (429, {"statusCode": 429}, {"Retry-After": "1"}),
        "failed": (503, {"statusCode": 503, "message": "The mail was not sent."}),
        "unknown": (500, {"statusCode": 500, "message": "Nobody knows."}),
    }

    def read(self, body):
        body = body if isinstance(body, dict) else {}
        given, to = body.get("payload") or {}, body.get("to") or []
        mail = {name: given.get(name) for name in ("from", "subject", "text")}
        return {**mail, "to": [one.get("email") for one in to]}


class Nylas(Careful):
    """A key for each mailbox, for an hour from its first request; every outcome is stored."""

    ROUTES = (
        ("POST", "/v3/grants/me/messages/send", "send"),
        ("POST", "/v3/domains/[^/]+/messages/send", "send"),
    )
    ORDER = ("auth", "rate_limit", "key", "record", "validation")
    EMPTY_KEY = "absent"
    SCOPE = ("tenant", "mailbox")
    FINGERPRINT = ("body",)
    STORES = dict.fromkeys(("sent", "validation", "refused", "busy", "unknown"), "stored")
    MARKER_HEADERS = {"Idempotent-Response": "true"}
    RETENTION = 3600
    ANSWERS = {
        "accepted": (200, {"request_id": "1", "data": {"id": "{id}"}}),
        "conflict": (409, {"error": {"type": "api.invalid_idempotent_request"}}),
        "in_progress": (409, {"error": {"type": "api.concurrent_idempotent_request"}}),
        "key_invalid": (400, {"error": {"type": "api.invalid_idempotency_key"}}),
        "refused": (400, {"error": {"type": "invalid_request_error"}}),
        "provider_refused": (422, {"error": {"type": "provider_error"}}),
        "unauthorized": (401, {"error": {"type": "unauthorized"}}),
        "rate_limited": (429, {"error": {"type": "rate_limit_error"}}),
        "failed": (503, {"error": {"type": "not_sent"}}),
        "unknown": (504, {"error": {"type": "provider_timeout"}}),
    }

    def read(self, body):
        body = body if isinstance(body, dict) else {}
        sender, to = body.get("from") or {}, body.get("to") or []
        sender = sender[0] if isinstance(sender, list) else sender
        mail = {"from": sender.get("email"), "subject": body.get("subject"), "text": body.get("body")}
        return {**mail, "to": [one.get("email") for one in to]}

    def scope(self, call):
        return ("tenant",) if "/domains/" in call.request.path else self.SCOPE
