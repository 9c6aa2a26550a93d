// Answers 202 with the key safely in a file but the mail only in memory. Killed before the hand-over, it
// loses the mail, and every repeat is told that it was accepted.
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import {
  canonical, error, handOver, keyOf, readMail, serve, tenantOf,
} from "../../targets_common/plumbing.mjs";

const UNKNOWN = error(502, "delivery_outcome_unknown", "The mail may have been sent. It is not sent again.");
const entries = new Map(); // tenant and key -> what became of the mail sent under it

let queue = Promise.resolve(); // one mail after the other

// The file holds one line for each change of an entry; one without a fingerprint frees the key.
const file = fs.openSync(process.env.STATE, "a+");
for (const line of fs.readFileSync(process.env.STATE, "utf8").split("\n").slice(0, -1)) {
  const { place, ...entry } = JSON.parse(line);
  if (entry.fingerprint) entries.set(place, entry);
  else entries.delete(place);
}

function store(place, entry) {
  if (entry) entries.set(place, entry);
  else entries.delete(place);
  if (typeof place === "string") {
    fs.writeSync(file, `${JSON.stringify({ place, ...entry })}\n`);
    fs.fsyncSync(file);
  }
}

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
  const entry = { fingerprint, state: "accepted", id: randomUUID() };
  store(place, entry);
  queue = queue.then(() => send(place, entry, mail));
  return [202, { id: entry.id }];
}

function repeat(entry, fingerprint) {
  if (entry.fingerprint !== fingerprint) {
    return error(409, "invalid_idempotent_request", "This key was used with a different payload.");
  }
  return entry.state === "unknown" ? UNKNOWN : [202, { id: entry.id }];
}

async function send(place, entry, mail) {
  try {
    await handOver(mail);
  } catch (problem) {
    if (problem.outcome === "unknown") store(place, { ...entry, state: "unknown" });
    else if (problem.outcome === "refused") store(place, null); // the caller may try again under the same key
    else setTimeout(send, 200, place, entry, mail);
  }
}

serve({ "/emails": postEmails });
