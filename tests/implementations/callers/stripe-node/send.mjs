// Stripe's SDK with two retries as its readme has them, which adds a key by itself.
import Stripe from "stripe";

const SENT = 0, NOT_SENT = 1, UNKNOWN = 75;
const { API_URL, TO, SUBJECT, TEXT } = process.env;
const { hostname, port } = new URL(API_URL);

const stripe = new Stripe("sk_test_123", { host: hostname, port, protocol: "http", maxNetworkRetries: 2, timeout: 3000 });
const mail = { from: "shop@acme.example", to: TO, subject: SUBJECT, text: TEXT };
try {
  const message = await stripe.rawRequest("POST", "/v1/messages", mail);
  console.log("sent", message.id);
  process.exit(SENT);
} catch (error) {
  console.error(error.type, error.message);
  const unclear = error instanceof Stripe.errors.StripeConnectionError || error instanceof Stripe.errors.StripeAPIError;
  process.exit(unclear ? UNKNOWN : NOT_SENT);
}
