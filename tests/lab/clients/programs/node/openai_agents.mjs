// OpenAI's Agents SDK for Node by the Responses API.
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, tool } from "@openai/agents";
import OpenAI from "openai";
import { CALL, COUNT, SCHEMA, TALK, getWeather, main } from "./checks.mjs";

const runner = new Runner({ tracingDisabled: true });
const agent = (url, key = "unused", more = {}, Kind = OpenAIResponsesModel) =>
  new Agent({
    name: "one", model: new Kind(new OpenAI({ baseURL: `${url}/v1`, apiKey: key }), "m"), ...more,
  });

await main(
  async (url, key, text) => (await runner.run(agent(url, key), text)).finalOutput,
  {
    async stop(url) {
      const more = { modelSettings: { providerData: { stop: ["5"] } } };
      const one = agent(url, "unused", more, OpenAIChatCompletionsModel);
      return [(await runner.run(one, COUNT)).finalOutput, "no word for why"];
    },
    stream: async (url) => (await runner.run(agent(url), COUNT, { stream: true })).toTextStream(),
    async tools(url) {
      const weather = tool({
        name: "get_weather", description: "Weather", parameters: SCHEMA, strict: true,
        execute: async (given) => getWeather(given),
      });
      return (await runner.run(agent(url, "unused", { tools: [weather] }), CALL)).finalOutput;
    },
    async abort(url) {
      const leaving = new AbortController();
      const found = await runner.run(agent(url), TALK, { stream: true, signal: leaving.signal });
      try {
        for await (const _ of found.toTextStream()) leaving.abort();
      } catch (error) {
        if (!/abort/i.test(`${error.name} ${error.message}`)) throw error;
      }
    },
  },
);
