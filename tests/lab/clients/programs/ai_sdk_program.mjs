// The AI SDK against a server, several turns each, whole and streamed. Run with the server's address.
// Its default for OpenAI is the Responses API: from the second turn on it sends item references.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const openai = createOpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none" });
const QUESTIONS = ["Say: apple", "Say: river", "Say: window"];
const options = { temperature: 0, maxOutputTokens: 40, maxRetries: 0 };

async function conversation(name, ask) {
  const found = { name, answers: [], input_tokens: [] };
  try {
    for (const question of QUESTIONS) {
      const [answer, tokens] = await ask(question);
      found.answers.push(answer);
      found.input_tokens.push(tokens);
    }
  } catch (error) {
    found.error = String(error).slice(0, 300);
  }
  console.log(JSON.stringify(found));
}

for (const [kind, model] of [["Responses", openai("m")], ["Chat", openai.chat("m")]]) {
  for (const isStreamed of [false, true]) {
    const messages = [];
    await conversation(`AI SDK ${kind} ${isStreamed ? "streamed" : "whole"}`, async (question) => {
      messages.push({ role: "user", content: question });
      const result = isStreamed
        ? streamText({ model, messages, ...options })
        : await generateText({ model, messages, ...options });
      const text = await result.text;
      messages.push(...(await result.response).messages);
      return [text, (await result.usage).inputTokens];
    });
  }
}
