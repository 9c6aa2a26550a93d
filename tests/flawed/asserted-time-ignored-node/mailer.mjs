// Repeatable Requests, without the time: when the caller began is read and never held against the window, so that a
// request of yesterday is executed, or answered from the record.
import { randomUUID } from "node:crypto";
import { HandOverError, canonical, handOver, serve } from "../../targets_common/plumbing.mjs";

const GUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const marked = (status, result, body) => [status, body, { "Repeatability-Result": result }];
const wrong = (status, message) => marked(status, "rejected", { error: { message } });
const requests = new Map(); // account and id -> { content, answer }, without an answer while it runs

async function send(req, body) {
  const id = req.headers["repeatability-request-id"];
  const began = req.headers["repeatability-first-sent"];
  const caller = (req.headers.authorization ?? "").split(":");
  if (caller[1] === "unauthorized") return [401, { error: { message: "Who is this?" } }];
  if (["rate-limited", "over-quota"].includes(caller[1])) return [429, { error: { message: "Too many." } }];
  if (id !== undefined && !GUID.test(id)) return wrong(400, "The id is no GUID.");
  if (began !== undefined && Number.isNaN(Date.parse(began))) return wrong(400, "The time is no date.");
  if (id === undefined) return execute(body);
  const place = `${caller[0]} ${id}`;
  const known = requests.get(place);
  if (known && known.content !== canonical(body)) return wrong(400, "The request does not match the first one.");
  if (known) return known.answer ?? marked(409, "accepted", { error: { message: "It is running." } });
  const request = { content: canonical(body), answer: null };
  requests.set(place, request);
  request.answer = await execute(body);
  if (request.answer[0] >= 500) requests.delete(place);
  return request.answer;
}

async function execute(body) {
  const to = (body?.recipients?.to ?? []).map((one) => one?.address);
  const { subject, plainText: text } = body?.content ?? {};
  const complete = body?.senderAddress && to.length > 0 && subject && text;
  if (!complete || !to.every((address) => String(address).includes("@"))) return wrong(400, "The mail is not complete.");
  try {
    await handOver({ from: body.senderAddress, to, subject, text });
  } catch (problem) {
    if (!(problem instanceof HandOverError)) throw problem;
    if (problem.outcome === "refused") return wrong(400, problem.message);
    if (problem.outcome === "not-accepted") return wrong(503, problem.message);
    // Nobody knows: the operation stays as it is, and is not begun again.
  }
  return marked(202, "accepted", { id: randomUUID(), status: "Running" });
}

serve((req, body) => (req.url.startsWith("/emails:send") ? send(req, body) : wrong(404, "There is no such path.")));
