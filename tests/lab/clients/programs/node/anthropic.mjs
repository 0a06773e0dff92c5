// Anthropic's SDK for Node.
import Anthropic from "@anthropic-ai/sdk";
import { CALL, COUNT, SCHEMA, TALK, main } from "./checks.mjs";

const client = (url, key = "unused") => new Anthropic({ baseURL: url, apiKey: key });
const asked = (text, more = {}) => ({
  model: "m", max_tokens: 100, messages: [{ role: "user", content: text }], ...more,
});

await main(
  async (url, key, text) => (await client(url, key).messages.create(asked(text))).content[0].text,
  {
    async stop(url) {
      const found = await client(url).messages.create(asked(COUNT, { stop_sequences: ["5"] }));
      return [found.content[0].text, `${found.stop_reason} ${found.stop_sequence}`];
    },
    async *stream(url) {
      for await (const event of client(url).messages.stream(asked(COUNT)))
        if (event.type === "content_block_delta") yield event.delta.text;
    },
    async tools(url) {
      const tool = { name: "get_weather", description: "Weather", input_schema: SCHEMA };
      const found = await client(url).messages.create(asked(CALL, { tools: [tool] }));
      const call = found.content.find((block) => block.type === "tool_use");
      return [call.name, call.input];
    },
    async abort(url) {
      const events = client(url).messages.stream(asked(TALK, { max_tokens: 4000 }));
      for await (const event of events) if (event.type === "content_block_delta") break;
      events.abort();
    },
  },
);
