// OpenAI's SDK for Node: Chat Completions; one answer by the Responses API beside it.
import OpenAI from "openai";
import { CALL, COUNT, COUNTED, SCHEMA, TALK, main } from "./checks.mjs";

const client = (url, key = "unused") => new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
const chat = (url, text, more = {}, key = "unused") =>
  client(url, key).chat.completions.create({
    model: "m", messages: [{ role: "user", content: text }], ...more,
  });

await main(
  async (url, key, text) => {
    const answer = (await chat(url, text, {}, key)).choices[0].message.content;
    const other = await client(url, key).responses.create({ model: "m", input: COUNT });
    if (other.output_text !== COUNTED) throw new Error(other.output_text);
    return answer;
  },
  {
    async stop(url) {
      const [choice] = (await chat(url, COUNT, { stop: ["5"] })).choices;
      return [choice.message.content, `${choice.finish_reason} ${choice.matched_stop}`];
    },
    async *stream(url) {
      for await (const chunk of await chat(url, COUNT, { stream: true }))
        yield chunk.choices[0]?.delta.content;
    },
    async tools(url) {
      const tool = { type: "function", function: { name: "get_weather", parameters: SCHEMA } };
      const [call] = (await chat(url, CALL, { tools: [tool] })).choices[0].message.tool_calls;
      return [call.function.name, call.function.arguments];
    },
    async abort(url) {
      const chunks = await chat(url, TALK, { stream: true });
      for await (const chunk of chunks) if (chunk.choices[0]?.delta.content) break;
    },
  },
);
