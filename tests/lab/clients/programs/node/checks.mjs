// What every client of Node is asked, inside its own environment; the counterpart of checks.py.

export const [URL, LOCKED] = process.argv.slice(2);
export const COUNT = "Please COUNT_UP";
export const COUNTED = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10";
export const TALK = "Please TALK_ON";
export const SAID = "All is well.";
export const CALL =
  'Please CALL_TOOL {"name": "get_weather", "arguments": {"city": "Oslo"}}';
export const LONG = "word ".repeat(50_000);
export const SCHEMA = {
  type: "object",
  properties: { city: { type: "string", description: "Name of a city" } },
  required: ["city"],
  additionalProperties: false,
};
export const getWeather = ({ city }) => `sunny in ${city}`;

// ask(url, key, text) returns the answer; stop(url) its text and the client's word for why;
// stream(url) the pieces; tools(url) the call's name and arguments or the answer that follows its
// result; abort(url) leaves in the middle of the answer to TALK. `without` says why one is missing.
export async function main(ask, { stop, stream, tools, abort, without = {} }) {
  await check("works", async () => {
    const text = await ask(URL, "unused", COUNT);
    return [String(text).trim() === COUNTED, JSON.stringify(text)];
  });
  await check("stop", stop && (async () => {
    const [text, reason] = await stop(URL);
    return [text.trim() === "1\n2\n3\n4", `${JSON.stringify(text)}, ${reason}`];
  }), without);
  await check("stream", stream && (async () => {
    const pieces = [];
    for await (const piece of await stream(URL)) if (piece) pieces.push(piece);
    return [pieces.join("").trim() === COUNTED && pieces.length > 1, `${pieces.length} pieces`];
  }), without);
  await check("tools", tools && (async () => {
    const found = await tools(URL);
    if (typeof found === "string") return [found.includes(SAID), JSON.stringify(found)];
    const [name, given] = found;
    const args = typeof given === "string" ? JSON.parse(given) : given;
    return [name === "get_weather" && args.city === "Oslo", JSON.stringify(found)];
  }), without);
  await check("abort", abort && (async () => {
    const before = await cancelled();
    await abort(URL);
    const endsAt = Date.now() + 60_000;
    while ((await cancelled()) === before) {
      if (Date.now() > endsAt) return [false, "the server went on"];
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return [true, "the server ended the answer"];
  }), without);
  await check("errors", () => erred(ask));
  process.exit(0);
}

async function erred(ask) {
  const shown = [];
  for (const [url, key, text, status, words] of [
    [URL, "unused", LONG, "400", /context|too long|tokens/],
    [LOCKED, "wrong", COUNT, "401", /key|401|uthentic/],
  ]) {
    const before = await asked(url, status);
    let said;
    try {
      const answer = await ask(url, key, text);
      return [false, `no error, but ${JSON.stringify(answer)}`];
    } catch (error) {
      said = `${error.constructor?.name}: ${error.message}`;
    }
    const times = (await asked(url, status)) - before;
    shown.push(`${said.slice(0, 120)} (asked ${times} times)`);
    if (!words.test(said)) return [false, shown.at(-1)];
  }
  return [true, shown.join("; ")];
}

async function metrics(url) {
  return (await fetch(`${url}/metrics`, { headers: { "x-api-key": "right" } })).text();
}

async function asked(url, status) {
  const lines = (await metrics(url)).matchAll(/fullstop_requests_total\{[^}]*status="(\d+)"\} ([0-9.]+)/g);
  return [...lines].reduce((sum, line) => sum + (line[1] === status ? Number(line[2]) : 0), 0);
}

async function cancelled() {
  return Number((await metrics(URL)).match(/fullstop_stops_total\{[^}]*"cancelled"\} ([0-9.]+)/)?.[1] ?? 0);
}

async function check(name, act, without = {}) {
  let passed = null;
  let said = without[name] ?? "the client cannot";
  if (act) {
    try {
      [passed, said] = await act();
    } catch (error) {
      console.error(error);
      [passed, said] = [false, `${error.constructor?.name}: ${error.message}`];
    }
  }
  console.log(JSON.stringify({ check: name, passed, said: String(said).replace(/\s+/g, " ").slice(0, 300) }));
}
