// A small server of Chat Completions over llama.cpp, for comparisons: node llama_cpp.mjs FOLDER GGUF PORT
// FOLDER has node-llama-cpp ("npm install --ignore-scripts node-llama-cpp"). Streams only, greedy, ChatML.
import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, gguf, port] = process.argv.slice(2);
const library = path.resolve(folder, "node_modules/node-llama-cpp/dist/index.js");
const { getLlama } = await import(pathToFileURL(library));
const llama = await getLlama({ gpu: false, build: "never", maxThreads: 1 });
const model = await llama.loadModel({ modelPath: path.resolve(gguf) });
const context = await model.createContext({ sequences: 4, contextSize: 8192, threads: 1 });
const free = [0, 1, 2, 3].map(() => context.getSequence());
const SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

function promptOf(messages) {
    const turns = messages[0].role === "system" ? messages : [{ role: "system", content: SYSTEM }, ...messages];
    const text = turns.map((turn) => `<|im_start|>${turn.role}\n${turn.content}<|im_end|>\n`).join("");
    return model.tokenize(`${text}<|im_start|>assistant\n`, true);
}

function shared(sequence, tokens) {
    const had = sequence.contextTokens;
    let count = 0;
    while (count < had.length && count < tokens.length && had[count] === tokens[count]) count += 1;
    return count;
}

async function answer(body, response) {
    const tokens = promptOf(body.messages);
    free.sort((a, b) => shared(b, tokens) - shared(a, tokens));
    const sequence = free.shift();
    const send = (value) => response.write(`data: ${JSON.stringify(value)}\n\n`);
    response.writeHead(200, { "content-type": "text/event-stream" });
    let count = 0;
    const got = [];
    let shown = "";
    try {
        const kept = Math.min(shared(sequence, tokens), tokens.length - 1);
        await sequence.eraseContextTokenRanges([{ start: kept, end: sequence.nextTokenIndex }]);
        for await (const token of sequence.evaluate(tokens.slice(kept), { temperature: 0 })) {
            if (model.isEogToken(token)) break;
            got.push(token);
            count += 1;
            const text = model.detokenize(got, false);
            if (!text.endsWith("\ufffd")) {
                send({ choices: [{ index: 0, delta: { content: text.slice(shown.length) } }] });
                shown = text;
            }
            if (count >= body.max_tokens) break;
        }
    } finally {
        free.push(sequence);
    }
    send({ choices: [], usage: { completion_tokens: count, prompt_tokens: tokens.length } });
    response.end("data: [DONE]\n\n");
}

http.createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
        answer(JSON.parse(Buffer.concat(parts).toString()), response).catch((error) => {
            console.error(error);
            response.destroy();
        });
    });
}).listen(Number(port), "127.0.0.1");
