// Looks the key up, awaits the send, and only then stores the key. Two requests at once both find nothing
// and both send.
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
  const place = key === undefined ? Symbol() : JSON.stringify([tenantOf(req), key]);
  const first = entries.get(place);
  if (first) return repeat(first, fingerprint);
  return send(place, fingerprint, mail);
}

function repeat(entry, fingerprint) {
  if (entry.fingerprint !== fingerprint) {
    return error(409, "invalid_idempotent_request", "This key was used with a different payload.");
  }
  return entry.state === "unknown" ? UNKNOWN : [200, { id: entry.id }];
}

async function send(place, fingerprint, mail) {
  try {
    await handOver(mail);
  } catch (problem) {
    if (!(problem instanceof HandOverError)) throw problem;
    if (problem.outcome === "unknown") {
      if (!entries.has(place)) entries.set(place, { fingerprint, state: "unknown" });
      return UNKNOWN;
    }
    return problem.outcome === "refused"
      ? error(422, "validation_error", problem.message)
      : error(503, "application_error", "The mail was not sent. Try again.");
  }
  const id = randomUUID();
  if (!entries.has(place)) entries.set(place, { fingerprint, state: "sent", id });
  return [200, { id }];
}

serve({ "/emails": postEmails });
