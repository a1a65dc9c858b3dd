import { describe, expect, it } from "vitest";
import { Problem, type Reacted } from "./api";
import { ItemReactions, moved } from "./reactions";

const START = { like: "10", dislike: "3" };

/** A server in this process: answers when it is told to. */
class Server {
  held: string | null = null;
  counts = { ...START };
  keys: string[] = [];
  failures: Problem[] = [];
  private waiting: (() => void)[] = [];

  react = async (item: string, user: string, kind: string | null, key: string): Promise<Reacted> => {
    await new Promise<void>((go) => this.waiting.push(go));
    this.keys.push(key);
    const failure = this.failures.shift();
    if (failure) throw failure;
    this.counts = moved(this.counts, this.held, kind) as typeof START;
    this.held = kind;
    const as_of = `2026-01-01T00:00:0${this.keys.length}Z`;
    return { item, user, reaction: kind, changed: true, repeated: false, counts: this.counts, ack: "durable", as_of };
  };

  async answer(): Promise<void> {
    this.waiting.shift()!();
    for (let i = 0; i < 10; i++) await Promise.resolve();
  }
}

function start() {
  const server = new Server();
  const problems: Problem[] = [];
  const noPause = () => Promise.resolve();
  const item = new ItemReactions("post", "ann", (problem) => problems.push(problem), server.react, noPause);
  item.known(null, START, "2026-01-01T00:00:00Z");
  return { server, problems, item };
}

const down = (status: number) => new Problem(status, "", "Not now", "", "");

describe("clicks", () => {
  it("show at once and are true after the answer", async () => {
    const { server, item } = start();
    item.click("like");
    expect(item.shown).toMatchObject({ held: "like", counts: { like: "11", dislike: "3" }, isBusy: true });
    await server.answer();
    expect(item.shown).toMatchObject({ held: "like", counts: { like: "11", dislike: "3" }, isBusy: false });
  });

  it("switch from one kind to the other", async () => {
    const { server, item } = start();
    item.click("like");
    await server.answer();
    item.click("dislike");
    expect(item.shown.counts).toEqual({ like: "10", dislike: "4" });
    await server.answer();
    expect(server.held).toBe("dislike");
  });

  it("that follow quickly end with the last one, each with a key of its own", async () => {
    const { server, item } = start();
    item.click("like");
    item.click("like");
    item.click("dislike");
    await server.answer();
    expect(item.shown).toMatchObject({ held: "dislike", counts: { like: "10", dislike: "4" } });
    await server.answer();
    expect(server.held).toBe("dislike");
    expect(new Set(server.keys).size).toBe(2);
    expect(item.shown.isBusy).toBe(false);
  });

  it("twice on the same are as if there was none", async () => {
    const { server, item } = start();
    item.click("like");
    item.click("like");
    await server.answer();
    await server.answer();
    expect(server.held).toBe(null);
    expect(item.shown.counts).toEqual(START);
  });
});

describe("failures", () => {
  it("are sent again with the same key", async () => {
    const { server, item, problems } = start();
    server.failures = [down(0), down(503)];
    item.click("like");
    await server.answer();
    await server.answer();
    await server.answer();
    expect(new Set(server.keys).size).toBe(1);
    expect(item.shown).toMatchObject({ held: "like", counts: { like: "11", dislike: "3" } });
    expect(problems).toEqual([]);
  });

  it("that last are taken back with a message", async () => {
    const { server, item, problems } = start();
    server.failures = [down(422)];
    item.click("like");
    await server.answer();
    expect(item.shown).toMatchObject({ held: null, counts: START, isBusy: false });
    expect(problems).toHaveLength(1);
  });
});

describe("live counts", () => {
  it("are not counted twice when they come before the answer", async () => {
    const { server, item } = start();
    item.click("like");
    item.live("like", "11", "2026-01-01T00:00:00.5Z");
    expect(item.shown.counts.like).toBe("11");
    await server.answer();
    expect(item.shown.counts.like).toBe("11");
  });

  it("of others are shown", () => {
    const { item } = start();
    item.live("dislike", "4", "2026-01-01T00:00:01Z");
    expect(item.shown.counts.dislike).toBe("4");
  });
});
