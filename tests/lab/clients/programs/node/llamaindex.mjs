// LlamaIndex for Node: its OpenAI model.
import { OpenAI } from "@llamaindex/openai";
import { CALL, COUNT, SCHEMA, main } from "./checks.mjs";

const model = (url, key = "unused", more = {}) =>
  new OpenAI({ model: "m", apiKey: key, baseURL: `${url}/v1`, maxRetries: 0, ...more });
const said = (text) => [{ role: "user", content: text }];

await main(
  async (url, key, text) => (await model(url, key).chat({ messages: said(text) })).message.content,
  {
    async stop(url) {
      const found = await model(url, "unused", { additionalChatOptions: { stop: ["5"] } }).chat({ messages: said(COUNT) });
      return [found.message.content, found.raw.choices[0].finish_reason];
    },
    async *stream(url) {
      for await (const part of await model(url).chat({ messages: said(COUNT), stream: true })) yield part.delta;
    },
    async tools(url) {
      const tool = { metadata: { name: "get_weather", description: "Weather", parameters: SCHEMA }, call: async () => "sunny" };
      const found = await model(url).chat({ messages: said(CALL), tools: [tool] });
      const [call] = found.message.options.toolCall;
      return [call.name, call.input];
    },
    without: { abort: "its streams take no signal" },
  },
);
