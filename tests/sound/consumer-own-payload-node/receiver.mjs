// Has a payload of its own, a plain HMAC, and one promise for each message: whoever comes while a message is being
// answered waits for that, and is told the same. A file holds what was answered; the send has a key.
import crypto from "node:crypto";
import fs from "node:fs";
import { error, handOver, serve } from "../../targets_common/plumbing.mjs";

const file = fs.openSync(process.env.STATE, "a+");
const answered = new Set(fs.readFileSync(process.env.STATE, "utf8").split("\n"));
const running = new Map(); // message -> the promise of its answer

function signed(headers, raw) {
  const made = `sha256=${crypto.createHmac("sha256", process.env.WEBHOOK_SECRET).update(raw).digest("hex")}`;
  const given = headers["x-inbox-signature"] ?? "";
  return given.length === made.length && crypto.timingSafeEqual(Buffer.from(given), Buffer.from(made));
}

async function postWebhooks(req, event, res, raw) {
  if (!signed(req.headers, raw)) return error(403, "forbidden", "The signature does not fit.");
  if (event.kind !== "mail_in") return error(404, "unknown_kind", "No such kind of event.");
  const id = event.mail.reference;
  if (answered.has(id)) return [202, { ok: true }];
  if (!running.has(id)) running.set(id, answer(id, event.mail).finally(() => running.delete(id)));
  return running.get(id);
}

async function answer(id, { sender, title, content }) {
  const mail = { from: "support@house.example", to: [sender], subject: `Re: ${title}`, text: `You wrote: ${content}` };
  try {
    await handOver(mail, 3000, `reply-to-${id}`);
  } catch (problem) {
    if (problem.outcome !== "refused") return error(503, "try_again", "The same key will tell.");
  }
  answered.add(id);
  fs.writeSync(file, `${id}\n`);
  fs.fsyncSync(file);
  return [202, { ok: true }];
}

serve({ "/webhooks": postWebhooks });
