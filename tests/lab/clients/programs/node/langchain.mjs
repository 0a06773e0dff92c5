// LangChain for Node: ChatOpenAI; one answer by ChatAnthropic beside it.
import { ChatAnthropic } from "@langchain/anthropic";
import { ChatOpenAI } from "@langchain/openai";
import { CALL, COUNT, COUNTED, SCHEMA, TALK, main } from "./checks.mjs";

const model = (url, key = "unused", more = {}) =>
  new ChatOpenAI({ model: "m", apiKey: key, configuration: { baseURL: `${url}/v1` }, maxRetries: 0, ...more });

await main(
  async (url, key, text) => {
    const answer = (await model(url, key).invoke(text)).text;
    const other = new ChatAnthropic({ model: "m", apiKey: key, anthropicApiUrl: url, maxTokens: 100 });
    const found = (await other.invoke(COUNT)).text;
    if (found !== COUNTED) throw new Error(found);
    return answer;
  },
  {
    async stop(url) {
      const found = await model(url).invoke(COUNT, { stop: ["5"] });
      return [found.text, found.response_metadata.finish_reason];
    },
    async *stream(url) {
      for await (const chunk of await model(url).stream(COUNT)) yield chunk.text;
    },
    async tools(url) {
      const tool = { type: "function", function: { name: "get_weather", parameters: SCHEMA } };
      const [call] = (await model(url).bindTools([tool]).invoke(CALL)).tool_calls;
      return [call.name, call.args];
    },
    async abort(url) {
      const leaving = new AbortController();
      try {
        for await (const _ of await model(url).stream(TALK, { signal: leaving.signal })) leaving.abort();
      } catch (error) {
        if (!/abort/i.test(`${error.name} ${error.message}`)) throw error;
      }
    },
  },
);
