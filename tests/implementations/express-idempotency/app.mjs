// A mail API made idempotent with express-idempotency, set up as its README shows.

import express from 'express';
import { getSharedIdempotencyService, idempotency } from 'express-idempotency';

const { MAIL_PROVIDER_URL, PORT } = process.env;

const app = express();
app.use(express.json()); // before the middleware, which compares bodies
app.post('*', idempotency());

app.get('/healthz', (req, res) => res.json({ ok: true }));

app.post('/emails', async (req, res) => {
    const idempotencyService = getSharedIdempotencyService();
    if (idempotencyService.isHit(req)) {
        return;
    }

    const { from, to, subject, text } = req.body ?? {};
    const message = { from, to: [to].flat(), subject, text };
    const problem = problemWith(message);
    if (problem) {
        res.status(422).json({ error: problem });
        return;
    }
    try {
        res.json({ id: await handOver(message) });
    } catch (error) {
        await idempotencyService.reportError(req);
        res.status(502).json({ error: `mail provider: ${error.message}` });
    }
});

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
