// Looks whether an event was handled, waits for the send, and notes the event after that: whatever comes in the meantime
// finds nothing.
import crypto from "node:crypto";
import fs from "node:fs";
import { error, handOver, serve } from "../../targets_common/plumbing.mjs";

const secret = Buffer.from(process.env.WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");
const handled = new Set(fs.existsSync(process.env.STATE) ? fs.readFileSync(process.env.STATE, "utf8").split("\n") : []);

function signed(headers, raw) {
  const at = headers["svix-timestamp"] ?? "";
  if (!/^\d+$/.test(at) || Math.abs(Date.now() / 1000 - Number(at)) > 300) return false;
  const made = crypto.createHmac("sha256", secret).update(`${headers["svix-id"]}.${at}.`).update(raw).digest("base64");
  return (headers["svix-signature"] ?? "").split(" ").includes(`v1,${made}`);
}

async function postWebhooks(req, event, res, raw) {
  if (!signed(req.headers, raw)) return error(401, "bad_signature", "The signature does not fit.");
  if (event.type !== "message.received") return [200, { ok: true }];
  const { message_id: id, from, subject, text } = event.data;
  if (handled.has(id)) return [200, { ok: true }];
  try {
    await handOver({ from: "support@house.example", to: [from], subject: `Re: ${subject}`, text: `You wrote: ${text}` });
  } catch (problem) {
    if (problem.outcome === "not-accepted") return error(503, "try_again", "The reply was not sent.");
  }
  handled.add(id);
  fs.appendFileSync(process.env.STATE, `${id}\n`);
  return [200, { ok: true }];
}

serve({ "/webhooks": postWebhooks });
