// A server with something going on: what an application might count, and people who use it meanwhile. For pictures.

import type { Tallyd } from "./lab";

const LINES = 20_000; // of a batch

const liked: Record<string, [likes: number, dislikes: number]> = {
  "tally-demo:post-aurora": [1_284_906, 3_120],
  "tally-demo:post-sourdough": [48_311, 212],
  "tally-demo:post-marathon": [9_874, 41],
  "tally-demo:post-tabs": [5_120, 4_987],
  "tally-demo:post-cat": [731, 2],
};

const counted: Record<string, number> = {
  "views:aurora-4k": 18_402_377, "views:how-to-sourdough": 962_114, "views:marathon-live": 1_204_558, "views:cat-vs-fridge": 88_213,
  "hashtag:#northernlights": 402_981, "hashtag:#sourdough": 120_455, "hashtag:#running": 99_872, "hashtag:#catsofinstagram": 5_204_110,
  "votes:best-editor": 31_337, "votes:mascot-2026": 8_204, "shop:stock:mug-blue": 412, "shop:stock:mug-green": 37, "shop:sold:mug-blue": 1_588,
  "app:signups": 240_118, "app:sessions": 12_844_021, "api:calls:v1": 77_310_442, "api:calls:v2": 9_120_338, "mail:sent": 3_018_774,
};

const REFUSED = ["coupon:spring", "coupon:summer", "coupon:winter"];

async function likeAll(tallyd: Tallyd, item: string, op: string, count: number): Promise<void> {
  for (let from = 0; from < count; from += LINES)
    await tallyd.lines(Array.from({ length: Math.min(LINES, count - from) }, (_, i) => ({ op, item, user: `${op}r-${from + i}` })));
}

/** What is there before anybody looks. */
export async function fill(tallyd: Tallyd): Promise<void> {
  await tallyd.lines(Object.entries(counted).map(([id, delta]) => ({ op: "add", id, delta })));
  for (const [item, [likes, dislikes]] of Object.entries(liked)) {
    await likeAll(tallyd, item, "like", likes);
    await likeAll(tallyd, item, "dislike", dislikes);
  }
  await tallyd.lines([
    ...["tally-demo:post-aurora", "tally-demo:post-sourdough", "tally-demo:post-cat", "video:aurora-4k", "video:marathon-live", "comment:8123", "comment:8170"].map((item) => ({ op: "like", item, user: "tally-demo:ann" })),
    ...["tally-demo:post-tabs", "comment:8144"].map((item) => ({ op: "dislike", item, user: "tally-demo:ann" })),
  ]);
}

/** From now on the store refuses these: they are tried again, and end as dead letters half a minute later. */
export async function refuse(tallyd: Tallyd): Promise<void> {
  tallyd.sql("CREATE TRIGGER refuse BEFORE INSERT ON entries WHEN new.id LIKE 'coupon:%' BEGIN SELECT RAISE(ABORT, 'no more than 1,000 coupons'); END");
  await tallyd.lines(REFUSED.map((id, i) => ({ op: "add", id, delta: 40 + i })));
}

/** People come and go, in waves, until it is told to stop. */
export function keepBusy(tallyd: Tallyd): () => Promise<void> {
  let isOver = false;
  const names = Object.keys(counted);
  const items = Object.keys(liked).filter((item) => item !== "tally-demo:post-sourdough"); // one stands still, to be proved
  const pick = (from: string[]) => from[Math.floor(Math.random() ** 2 * from.length)]!;
  const round = async (second: number) => {
    const wave = 1.2 + Math.sin(second / 7) + (second % 23 < 3 ? 2.5 : 0);
    const lines = Array.from({ length: Math.round(wave * 450) }, (_, i) => (i % 3 > 0
      ? { op: "add", id: pick(names), delta: 1 }
      : { op: "like", item: pick(items), user: `guest-${Math.floor(Math.random() * 1e6)}` }));
    await tallyd.lines(lines);
    await Promise.all(Array.from({ length: Math.round(wave * 20) }, () => tallyd.call("GET", `/v1/counters/${encodeURIComponent(pick(names))}`)));
  };
  const work = async () => {
    for (let second = 0; !isOver; second += 0.25) {
      await round(second);
      await new Promise((done) => setTimeout(done, 250));
    }
  };
  const working = work();
  return async () => {
    isOver = true;
    await working;
  };
}
