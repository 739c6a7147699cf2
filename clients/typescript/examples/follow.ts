import { Client, StatekeepError, fromValue } from "statekeep";

const client = new Client();
const tail = client.state.streamHistory("chat-ts", { follow: true, last: 20, retryForMs: 120_000 });
try {
  for await (const event of tail) {
    console.log(fromValue(event.data));
    if (event.type === "bye") break;
  }
} catch (error) {
  if (!(error instanceof StatekeepError)) throw error;
  console.error(`${error.code} ${error.reason}: ${error.message}`);
}
console.log(`to be continued after revision ${tail.revision}`);
client.close();
