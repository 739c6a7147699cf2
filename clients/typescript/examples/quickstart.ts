import { Client, fromValue } from "statekeep";

const client = new Client(); // STATEKEEP_ADDRESS, or else 127.0.0.1:50051

// Memory: every write makes a version, a delete hides the key, history shows all.
await client.memory.set("app", "user/name", { first: "Ada", born: 1815 });
const entry = await client.memory.get("app", "user/name");
console.log(fromValue(entry?.value));

// StateStore: append to a thread, and stream it back.
await client.state.appendNextEvent("chat-ts", { type: "message", data: { text: "hello" } });
for await (const event of client.state.streamHistory("chat-ts")) {
  console.log(event.sequence, event.type, fromValue(event.data));
}

// Scratch: gone when the instance ends.
const instance = await client.scratch.attach("run-ts");
await client.scratch.put(instance.instanceId, "draft", "half a sentence");
await instance.close();

client.close();
