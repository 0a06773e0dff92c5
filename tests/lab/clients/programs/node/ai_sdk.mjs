// The AI SDK: its OpenAI-compatible provider; one answer by its OpenAI and Anthropic ones each.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { CALL, COUNT, COUNTED, SCHEMA, TALK, getWeather, main } from "./checks.mjs";

const model = (url, key = "unused") =>
  createOpenAICompatible({ name: "here", baseURL: `${url}/v1`, apiKey: key })("m");

await main(
  async (url, key, text) => {
    const { text: answer } = await generateText({ model: model(url, key), prompt: text });
    for (const other of [
      createOpenAI({ baseURL: `${url}/v1`, apiKey: key })("m"),
      createAnthropic({ baseURL: `${url}/v1`, apiKey: key })("m"),
    ]) {
      const found = await generateText({ model: other, prompt: COUNT });
      if (found.text !== COUNTED) throw new Error(found.text);
    }
    return answer;
  },
  {
    async stop(url) {
      const found = await generateText({ model: model(url), prompt: COUNT, stopSequences: ["5"] });
      return [found.text, found.finishReason];
    },
    stream: (url) => streamText({ model: model(url), prompt: COUNT }).textStream,
    async tools(url) {
      const weather = tool({
        description: "Weather", inputSchema: jsonSchema(SCHEMA), execute: async (given) => getWeather(given),
      });
      const tools = { get_weather: weather };
      const stopWhen = stepCountIs(3);
      return (await generateText({ model: model(url), prompt: CALL, tools, stopWhen })).text;
    },
    async abort(url) {
      const leaving = new AbortController();
      const found = streamText({ model: model(url), prompt: TALK, abortSignal: leaving.signal });
      for await (const _ of found.textStream) {
        leaving.abort();
        break;
      }
    },
  },
);
