// Each draft is read, sent, and then written as sent; between the first and the last everybody else reads it as a
// draft. Two people who approve at once send it twice.
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { HandOverError, canonical, handOver, serve } from "../../targets_common/plumbing.mjs";

const said = (status, code) => [status, { code }];
const UNKNOWN = said(502, "delivery_outcome_unknown");
const mails = new Map(); // id -> the mail, its owner and its state
const operations = new Map(); // account, mailbox and client_id -> { content, id }

async function post(req, body) {
  const [account, credential] = (req.headers.authorization ?? "").replace(/^Bearer /, "").split(":");
  const [, id, decision] = req.url.match(/^\/api\/v1\/drafts\/([^/]+)\/(approve|reject)$/) ?? [];
  if (credential === "unauthorized") return said(401, "unauthorized");
  if (["rate-limited", "over-quota"].includes(credential)) return said(429, "too_many_requests");
  if (decision) return decide(id, decision, account, credential);
  if (req.url === "/api/v1/drafts" || req.url === "/api/v1/send") return ask(req.url, account, body ?? {});
  return said(404, "not_found");
}

async function ask(path, account, body) {
  const { client_id: key, mailbox_id: mailbox = "default", subject, text, in_reply_to: thread = null } = body;
  const to = [body.to].flat();
  if (key !== undefined && (typeof key !== "string" || key.length < 1 || key.length > 256)) {
    return said(400, "invalid_client_id");
  }
  if (!subject || !text || !to.every((address) => String(address).includes("@"))) return said(422, "invalid_message");
  const keyed = key !== undefined && path.endsWith("/send");
  const place = JSON.stringify([account, mailbox, key]);
  const content = canonical({ to, subject, text, thread });
  const known = keyed && operations.get(place);
  if (known && known.content !== content) return said(409, "idempotency_conflict");
  if (known) return told(known.id, 200);
  const id = randomUUID();
  const waits = path.endsWith("/drafts") || mailbox === "needs-approval";
  mails.set(id, { account, state: waits ? "pending" : "sending", mail: { from: mailbox, to, subject, text } });
  if (keyed) operations.set(place, { content, id });
  if (waits) return told(id, 201);
  await send(id);
  if (mails.get(id).state !== "busy") return told(id, 201);
  operations.delete(place);
  return said(503, "not_sent");
}

function told(id, status) {
  switch (mails.get(id).state) {
    case "sent": return [status, { id, status: "sent" }];
    case "pending": return [202, { draft_id: id, status: "pending_approval" }];
    case "unknown": return status === 201 ? UNKNOWN : said(409, "idempotency_in_progress");
    case "sending": return said(409, "idempotency_in_progress");
    default: return said(422, "message_refused");
  }
}

async function decide(id, decision, account, credential) {
  if (mails.get(id)?.account !== account) return said(404, "not_found");
  if (credential !== "person") return said(403, "a_person_decides");
  if (mails.get(id).state !== "pending") return said(409, "no_draft");
  if (decision === "reject") {
    mails.get(id).state = "rejected";
    return [200, { id, status: "rejected" }];
  }
  await delay(50); // the mailbox and its quota are looked up
  await send(id);
  const { state } = mails.get(id);
  if (state === "busy") mails.get(id).state = "pending";
  return state === "busy" ? said(503, "not_sent") : state === "unknown" ? UNKNOWN : [200, { id, status: state }];
}

async function send(id) {
  let state = "sent";
  try {
    await handOver(mails.get(id).mail);
  } catch (problem) {
    if (!(problem instanceof HandOverError)) throw problem;
    state = { "not-accepted": "busy", refused: "refused", unknown: "unknown" }[problem.outcome];
  }
  mails.get(id).state = state;
}

serve(post);
