// Ollama's client for Node.
import { Ollama } from "ollama";
import { CALL, COUNT, SCHEMA, TALK, main } from "./checks.mjs";

const client = (url, key = "unused") =>
  new Ollama({ host: url, headers: { Authorization: `Bearer ${key}` } });
const asked = (text, more = {}) => ({
  model: "m", messages: [{ role: "user", content: text }], ...more,
});

await main(
  async (url, key, text) => (await client(url, key).chat(asked(text))).message.content,
  {
    async stop(url) {
      const found = await client(url).chat(asked(COUNT, { options: { stop: ["5"] } }));
      return [found.message.content, found.done_reason];
    },
    async *stream(url) {
      for await (const part of await client(url).chat(asked(COUNT, { stream: true })))
        yield part.message.content;
    },
    async tools(url) {
      const tool = { type: "function", function: { name: "get_weather", parameters: SCHEMA } };
      const found = await client(url).chat(asked(CALL, { tools: [tool] }));
      const call = found.message.tool_calls[0].function;
      return [call.name, call.arguments];
    },
    async abort(url) {
      const one = client(url);
      try {
        for await (const _ of await one.chat(asked(TALK, { stream: true }))) one.abort();
      } catch (error) {
        if (error.name !== "AbortError") throw error;
      }
    },
  },
);
