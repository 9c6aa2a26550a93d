// What the scripts in this folder share: mails come as JSON on standard input, one line of outcome goes out for each.
// A line is {"id": ...}, or {"error": CLASS, "status": ..., "code": ...} when the SDK raised it.
import { text } from 'node:stream/consumers';

export async function run(send, told) {
  for (const mail of JSON.parse(await text(process.stdin))) {
    let outcome;
    try {
      outcome = { id: await send(mail) };
    } catch (error) {
      outcome = { error: error.name ?? error.constructor.name, ...told(error) };
    }
    console.log(JSON.stringify(outcome));
  }
}
