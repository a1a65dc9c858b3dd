// ioredis_client.js - counts and likes with ioredis, as an application in JavaScript would.
//
//   node ioredis_client.js PORT
"use strict";

const assert = require("node:assert");
const Redis = require("ioredis");

const port = Number(process.argv[2]);

function connect() {
  return new Redis({ host: "127.0.0.1", port, connectTimeout: 10000, maxRetriesPerRequest: 3 });
}

async function count(client) {
  assert.strictEqual(await client.ping(), "PONG");
  assert.strictEqual(await client.incr("views"), 1);
  assert.strictEqual(await client.incrby("views", 41), 42);
  assert.strictEqual(await client.get("views"), "42");
  assert.strictEqual(await client.get("nobody"), null);
  assert.deepStrictEqual(await client.mget("views", "nobody"), ["42", null]);
  assert.strictEqual(await client.set("views", "9007199254740993"), "OK");
  assert.strictEqual(await client.get("views"), "9007199254740993");
  assert.strictEqual(await client.call("COUNTER.ADD", "votes", 5, "ID", "key1"), 5);
  assert.strictEqual(await client.call("COUNTER.ADD", "votes", 5, "ID", "key1"), 5);
  await assert.rejects(client.call("COUNTER.ADD", "votes", 6, "ID", "key1"), /: IDMISMATCH/);
  await assert.rejects(client.incrby("views", "many"), /not an integer/);
  assert.strictEqual(await client.expire("votes", 100), 1);
  assert.ok((await client.ttl("votes")) > 90);
  assert.match(await client.info(), /tally/);
}

async function like(client) {
  assert.strictEqual(await client.call("LIKE", "video1", "ann"), 1);
  assert.strictEqual(await client.call("LIKE", "video1", "ann"), 0);
  assert.strictEqual(await client.call("DISLIKE", "video1", "bob"), 1);
  assert.strictEqual(await client.call("REACTION", "video1", "bob"), "dislike");
  assert.deepStrictEqual(await client.call("COUNTS", "video1"), ["like", 1, "dislike", 1]);
}

// ioredis writes everything that is called in one turn of its loop at once.
async function pipeline(client) {
  const many = 2000;
  const answers = await Promise.all(Array.from({ length: many }, () => client.incr("piped")));
  assert.deepStrictEqual(answers, Array.from({ length: many }, (_, i) => i + 1));

  const batch = client.pipeline();
  for (let user = 0; user < many; user++) batch.call("LIKE", "piped-item", user);
  const likes = await batch.exec();
  assert.ok(likes.every(([error, changed]) => error === null && changed === 1));
  assert.strictEqual(await client.get("piped-item/like"), String(many));
}

async function transaction(client) {
  const answers = await client.multi().incr("multi").incrby("multi", 9).get("multi").exec();
  assert.deepStrictEqual(answers, [[null, 1], [null, 10], [null, "10"]]);
  await assert.rejects(client.multi().incr("multi").call("NO.SUCH.COMMAND").exec(), /EXECABORT/);
  assert.strictEqual(await client.get("multi"), "10");
  const partly = await client.multi().incr("multi").incrby("multi", "many").exec();
  assert.strictEqual(partly[0][1], 11);
  assert.match(partly[1][0].message, /not an integer/);

  await client.multi({ pipeline: false });
  assert.strictEqual(await client.incr("multi"), "QUEUED");
  assert.deepStrictEqual(await client.exec(), [[null, 12]]);
}

async function scan(client) {
  await client.pipeline(Array.from({ length: 500 }, (_, i) => ["incr", `scanned:${i}`])).exec();
  const found = new Set();
  for await (const ids of client.scanStream({ match: "scanned:*", count: 50 }))
    ids.forEach((id) => found.add(id));
  assert.strictEqual(found.size, 500);
}

// Changes come at most ten times a second, and the last one always comes.
async function subscribe(client) {
  const listener = connect();
  const heard = [];
  listener.on("message", (channel, value) => {
    assert.strictEqual(channel, "heard");
    heard.push(Number(value));
  });
  await listener.subscribe("heard");

  const begin = Date.now();
  let value = 0;
  while (Date.now() - begin < 1500) value = await client.incr("heard");
  while (heard[heard.length - 1] !== value && Date.now() - begin < 10000)
    await new Promise((resolve) => setTimeout(resolve, 20));

  const seconds = (Date.now() - begin) / 1000;
  assert.strictEqual(heard[heard.length - 1], value);
  assert.ok(value > 100, `only ${value} increments`);
  assert.ok(heard.length >= 3, `heard ${heard.length}`);
  assert.ok(heard.length <= seconds * 10 + 2, `heard ${heard.length} in ${seconds} s`);
  assert.deepStrictEqual(heard, [...heard].sort((a, b) => a - b));
  listener.disconnect();
}

async function main() {
  const client = connect();
  for (const part of [count, like, pipeline, transaction, scan, subscribe]) {
    await part(client);
    console.log(`${part.name} is fine`);
  }
  await client.quit();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
