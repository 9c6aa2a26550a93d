// A repeat that comes while the first request runs waits for it and is then answered like any repeat. If
// the first one certainly failed, one of those waiting becomes the first.
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
  for (let first; (first = entries.get(place)); ) {
    if (first.fingerprint !== fingerprint || first.state !== "sending") return repeat(first, fingerprint);
    await first.done;
  }
  const entry = { fingerprint, state: "sending", id: null };
  entries.set(place, entry);
  const answer = send(place, entry, mail);
  entry.done = answer.catch(() => {});
  return answer;
}

function repeat(entry, fingerprint) {
  if (entry.fingerprint !== fingerprint) {
    return error(409, "invalid_idempotent_request", "This key was used with a different payload.");
  }
  return entry.state === "unknown" ? UNKNOWN : [200, { id: entry.id }];
}

async function send(place, entry, mail) {
  try {
    await handOver(mail);
  } catch (problem) {
    if (!(problem instanceof HandOverError) || problem.outcome === "unknown") {
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
