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
  isDone = false; // what fails is done all the same
  isSilent = false; // nobody can be asked
  asked = 0;
  private waiting: (() => void)[] = [];

  mine = async (_user: string, items: string[]) => {
    this.asked++;
    if (this.isSilent) throw down(0);
    return { reactions: items.map((item) => ({ item, reaction: this.held })) };
  };

  react = async (item: string, user: string, kind: string | null, key: string): Promise<Reacted> => {
    await new Promise<void>((go) => this.waiting.push(go));
    this.keys.push(key);
    const failure = this.failures.shift();
    if (!failure || this.isDone) {
      this.counts = moved(this.counts, this.held, kind) as typeof START;
      this.held = kind;
    }
    if (failure) throw failure;
    return { item, user, reaction: kind, changed: true, repeated: false, counts: this.counts, ack: "durable", as_of: "" };
  };

  async answer(): Promise<void> {
    this.waiting.shift()!();
    await settled();
  }
}

async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

function start() {
  const server = new Server();
  const problems: Problem[] = [];
  const noPause = () => Promise.resolve();
  const item = new ItemReactions("post", "ann", (problem) => problems.push(problem), server, noPause);
  item.known(null, START);
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

describe("a click that follows", () => {
  it("is sent though the one before is refused", async () => {
    const { server, item, problems } = start();
    server.failures = [down(422)];
    item.click("like");
    item.click("dislike");
    await server.answer();
    expect(item.shown).toMatchObject({ held: "dislike", isBusy: true });
    await server.answer();
    expect(server.held).toBe("dislike");
    expect(item.shown).toMatchObject({ held: "dislike", counts: { like: "10", dislike: "4" }, isBusy: false });
    expect(problems).toHaveLength(1);
  });
});

describe("an outcome that nobody knows", () => {
  const lost = [0, 503, 0, 503].map((status) => new Problem(status, "", "Not now", "", ""));

  async function click(server: Server, item: ItemReactions): Promise<void> {
    server.failures = [...lost];
    item.click("like");
    for (let i = 0; i < lost.length; i++) await server.answer();
  }

  it("is asked for, and stays when it was done", async () => {
    const { server, item, problems } = start();
    server.isDone = true;
    await click(server, item);
    expect(item.shown).toMatchObject({ held: "like", counts: { like: "11", dislike: "3" }, isBusy: false });
    expect(problems).toEqual([]);
  });

  it("is taken back when it was not done", async () => {
    const { server, item, problems } = start();
    await click(server, item);
    expect(item.shown).toMatchObject({ held: null, counts: START, isBusy: false });
    expect(problems).toMatchObject([{ isUnknown: true }]);
  });

  it("is asked for again when the server is there again", async () => {
    const { server, item, problems } = start();
    server.isDone = server.isSilent = true;
    await click(server, item);
    expect(item.shown).toMatchObject({ held: null, isBusy: false });
    expect(problems).toHaveLength(1);
    server.isSilent = false;
    item.live("like", "11");
    await settled();
    expect(item.shown).toMatchObject({ held: "like", counts: { like: "11", dislike: "3" } });
  });
});

describe("loading", () => {
  it("that fails is tried again with the next live value, once", async () => {
    const { server, item } = start();
    server.held = "dislike";
    server.isSilent = true;
    await item.load();
    server.isSilent = false;
    server.asked = 0;
    item.live("like", "12");
    item.live("like", "13");
    await settled();
    expect(item.shown).toMatchObject({ held: "dislike", counts: { like: "13" } });
    expect(server.asked).toBe(1);
  });

  it("does not undo a click that was made meanwhile", async () => {
    const { server, item } = start();
    const loading = item.load(); // asked before the click
    item.click("like");
    await loading;
    await server.answer();
    expect(item.shown.held).toBe("like");
  });
});

describe("live counts", () => {
  it("are not counted twice when they come before the answer", async () => {
    const { server, item } = start();
    item.click("like");
    item.live("like", "11");
    expect(item.shown.counts.like).toBe("11");
    await server.answer();
    expect(item.shown.counts.like).toBe("11");
  });

  it("that come before the answer and are newer stay", async () => {
    const { server, item } = start();
    item.click("like");
    item.live("like", "500");
    await server.answer();
    expect(item.shown.counts.like).toBe("500");
  });

  it("that came while a write failed are shown", async () => {
    const { server, item } = start();
    server.failures = [down(422)];
    item.click("like");
    item.live("like", "500");
    await server.answer();
    expect(item.shown.counts.like).toBe("500");
  });

  it("of other kinds are shown while a write is under way, and stay", async () => {
    const { server, item } = start();
    item.click("like");
    item.live("dislike", "7");
    expect(item.shown.counts).toEqual({ like: "11", dislike: "7" });
    await server.answer();
    expect(item.shown.counts).toEqual({ like: "11", dislike: "7" });
  });

  it("stand against what was asked for before they came", () => {
    const { item } = start();
    item.live("dislike", "4");
    item.known(null, START);
    expect(item.shown.counts).toEqual({ like: "10", dislike: "4" });
  });
});
