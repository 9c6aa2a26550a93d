// Identifies a request by its key and its body together, so another mail under a used key is simply sent.
import { randomUUID } from "node:crypto";
import {
  HandOverError, canonical, error, handOver, keyOf, readMail, serve, tenantOf,
} from "../../targets_common/plumbing.mjs";

const UNKNOWN = error(502, "delivery_outcome_unknown", "The mail may have been sent. It is not sent again.");
const entries = new Map(); // tenant and key -> what became of the mail sent under it

async function postEmails(req, body) {
  const key = keyOf(req);
  if (key !== undefined && (key.length < 1 || key.length > 256)) {
    return error(400, "invalid_idempotency_key", "Idempotency-Key must be between 1 and 256 characters.");
  }
  const mail = readMail(body);
  const fingerprint = canonical({ ...body, to: mail.to });
  const place = key === undefined ? Symbol() : JSON.stringify([tenantOf(req), key, fingerprint]);
  const first = entries.get(place);
  if (first) return repeat(first);
  const entry = { state: "sending", id: null };
  entries.set(place, entry);
  return send(place, entry, mail);
}

function repeat(entry) {
  if (entry.state === "sending") {
    return error(409, "concurrent_idempotent_requests", "The first request with this key is still running.");
  }
  return entry.state === "unknown" ? UNKNOWN : [200, { id: entry.id }];
}

async function send(place, entry, mail) {
  try {
    await handOver(mail);
  } catch (problem) {
    if (!(problem instanceof HandOverError)) throw problem;
    if (problem.outcome === "unknown") {
      entry.state = "unknown";
      return UNKNOWN;
    }
    entries.delete(place);
    return problem.outcome === "refused"
      ? error(422, "validation_error", problem.message)
      : error(503, "application_error", "The mail was not sent. Try again.");
  }
  Object.assign(entry, { state: "sent", id: randomUUID() });
  return [200, { id: entry.id }];
}

serve({ "/emails": postEmails });
