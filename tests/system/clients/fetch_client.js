// fetch_client.js - Node's fetch and its parser of event streams against the HTTP door.
//
//   node fetch_client.js PORT

const assert = require("assert");

const base = `http://127.0.0.1:${process.argv[2]}`;

async function call(method, path, body, headers = {}) {
  const init = { method, headers: { ...headers } };
  if (body !== undefined) {
    init.headers["content-type"] ??= "application/json";
    init.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  const answer = await fetch(base + path, init);
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

async function counting() {
  for (let i = 1; i <= 3; i++) {
    const answer = await call("POST", "/v1/counters/views/add", { delta: 10 });
    assert.strictEqual(JSON.parse(answer.text).value, String(10 * i));
  }
  const read = await call("GET", "/v1/counters/views");
  const again = await call("GET", "/v1/counters/views", undefined,
                           { "if-none-match": read.headers.get("etag") });
  assert.strictEqual(again.status, 304);
  const big = await call("POST", "/v1/counters/big/add", '{"delta":123456789012345678901234567890}');
  assert.strictEqual(JSON.parse(big.text).value, "123456789012345678901234567890");
}

async function liking() {
  const many = await Promise.all(
    Array.from({ length: 200 }, (_, i) => call("PUT", `/v1/items/video1/reactions/user${i}`)));
  assert.ok(many.every((answer) => answer.status === 200));
  const item = JSON.parse((await call("GET", "/v1/items/video1")).text);
  assert.strictEqual(item.counts.like, "200");
  const lines = '{"op":"like","item":"video2","user":1}\n{"op":"fly"}\n';
  const batch = await call("POST", "/v1/batch", lines, { "content-type": "application/x-ndjson" });
  assert.deepStrictEqual(batch.text.trim().split("\n").map((line) => JSON.parse(line).status),
                         [200, 400]);
}

async function listening() {
  const answer = await fetch(`${base}/v1/changes?ids=${encodeURIComponent("video3/like")}`);
  assert.strictEqual(answer.headers.get("content-type"), "text/event-stream");
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  await call("PUT", "/v1/items/video3/reactions/ann");
  while (!/"value":"1"/.test(text)) {
    const { value, done } = await reader.read();
    assert.ok(!done, "the stream goes on");
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
}

(async () => {
  await counting();
  await liking();
  await listening();
  console.log("fetch is fine");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
