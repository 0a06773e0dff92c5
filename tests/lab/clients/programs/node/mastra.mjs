// Mastra: an agent on an OpenAI-compatible server.
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import { CALL, COUNT, TALK, getWeather, main } from "./checks.mjs";

const agent = (url, key = "unused", more = {}) =>
  new Agent({
    id: "one", name: "one", instructions: "", maxRetries: 0,
    model: { id: "here/m", url: `${url}/v1`, apiKey: key }, ...more,
  });

await main(
  async (url, key, text) => {
    const found = await agent(url, key).generate(text);
    if (found.error) throw found.error;
    return found.text;
  },
  {
    async stop(url) {
      const found = await agent(url).generate(COUNT, { modelSettings: { stopSequences: ["5"] } });
      return [found.text, found.finishReason];
    },
    stream: async (url) => (await agent(url).stream(COUNT)).textStream,
    async tools(url) {
      const weather = createTool({
        id: "get_weather", description: "Weather",
        inputSchema: z.object({ city: z.string() }),
        execute: async (given) => getWeather(given.context ?? given),
      });
      return (await agent(url, "unused", { tools: { get_weather: weather } }).generate(CALL)).text;
    },
    async abort(url) {
      const leaving = new AbortController();
      const found = await agent(url).stream(TALK, { abortSignal: leaving.signal });
      for await (const _ of found.textStream) {
        leaving.abort();
        break;
      }
    },
  },
);
