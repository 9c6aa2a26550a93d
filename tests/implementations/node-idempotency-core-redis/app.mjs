// A mail API made idempotent with @node-idempotency/core on Redis, set up as its README shows.

import { Idempotency, IdempotencyError, IdempotencyErrorCodes } from '@node-idempotency/core';
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis';
import express from 'express';

const { MAIL_PROVIDER_URL, PORT, REDIS_URL } = process.env;

// As the project's own Express plugin maps them.
const STATUS = {
    [IdempotencyErrorCodes.IDEMPOTENCY_FINGERPRINT_MISSMATCH]: 422,
    [IdempotencyErrorCodes.IDEMPOTENCY_KEY_LEN_EXEEDED]: 400,
    [IdempotencyErrorCodes.IDEMPOTENCY_KEY_MISSING]: 400,
    [IdempotencyErrorCodes.REQUEST_IN_PROGRESS]: 409,
};

const storage = new RedisStorageAdapter({ url: REDIS_URL });
await storage.connect();
const idempotency = new Idempotency(storage);

const app = express();
app.use(express.json());

app.get('/healthz', (req, res) => res.json({ ok: true }));

app.post('/emails', async (req, res) => {
    const request = { method: req.method, headers: req.headers, body: req.body, path: req.path };
    try {
        const response = await idempotency.onRequest(request);
        if (response) {
            res.status(response.additional.status).json(response.body ?? response.error);
            return;
        }
    } catch (error) {
        if (!(error instanceof IdempotencyError)) {
            throw error;
        }
        res.status(STATUS[error.code]).json({ error: error.message });
        return;
    }

    const { status, ...outcome } = await send(req.body ?? {});
    await idempotency.onResponse(request, { ...outcome, additional: { status } });
    res.status(status).json(outcome.body ?? outcome.error);
});

async function send({ from, to, subject, text }) {
    const message = { from, to: [to].flat(), subject, text };
    const problem = problemWith(message);
    if (problem) {
        return { status: 422, error: { error: problem } };
    }
    try {
        return { status: 200, body: { id: await handOver(message) } };
    } catch (error) {
        return { status: 502, error: { error: `mail provider: ${error.message}` } };
    }
}

function problemWith({ from, to, subject, text }) {
    const missing = Object.entries({ from, subject, text }).find(([, value]) => typeof value !== 'string' || !value);
    if (missing) {
        return `${missing[0]}: required`;
    }
    const isAddress = (address) => typeof address === 'string' && address.includes('@');
    return to.length && [from, ...to].every(isAddress) ? null : 'from, to: need addresses';
}

// Once: no retries.
async function handOver(message) {
    const answer = await fetch(`${MAIL_PROVIDER_URL}/emails`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(message),
        signal: AbortSignal.timeout(5000),
    });
    if (!answer.ok) {
        throw new Error(`status ${answer.status}`);
    }
    return (await answer.json()).id;
}

app.listen(Number(PORT), '127.0.0.1');
