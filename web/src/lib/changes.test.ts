import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Changes, coverageOf, type Change } from "./changes";

const FRAME_MS = 20;

/** A server in this process: it says what streams it was asked for, and each is written and ended by the test. */
class Streams {
  asked: { search: string; signal: AbortSignal; say: (text: string) => void; end: () => void }[] = [];
  read: string[][] = [];
  stored: Record<string, string> = {};
  isDown = false;
  isHung = false;
  type = "text/event-stream; charset=utf-8";

  listen = (search: string, signal: AbortSignal): Promise<Response> => {
    if (this.isDown) return Promise.reject(new TypeError("refused"));
    let out!: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void (out = controller) });
    signal.addEventListener("abort", () => out.error(new Error("aborted")));
    this.asked.push({ search, signal, say: (text) => out.enqueue(new TextEncoder().encode(text)), end: () => out.close() });
    if (!this.isHung) return Promise.resolve(new Response(body, { headers: { "Content-Type": this.type } }));
    return new Promise((_done, fail) => signal.addEventListener("abort", () => fail(new Error("aborted"))));
  };

  values = async (ids: string[]) => {
    this.read.push(ids);
    if (this.isDown || this.isHung) throw new Error("refused");
    return ids.map((id) => ({ id, value: this.stored[id] ?? null }));
  };

  get newest() {
    return this.asked.at(-1)!;
  }

  get open() {
    return this.asked.filter(({ signal }) => !signal.aborted).length;
  }
}

const event = (id: string, value: string) => `id: 1\ndata: ${JSON.stringify({ id, value, as_of: "" })}\n\n`;

function start(random = 1) {
  const streams = new Streams();
  const changes = new Changes(streams, () => random);
  const values: Record<string, string | null> = {};
  const show = (id: string) => changes.subscribe(id, (change: Change) => void (values[id] = change.value));
  return { streams, changes, values, show };
}

/** With the head and the greeting of the server. */
async function goLive(streams: Streams, text = ""): Promise<void> {
  await vi.advanceTimersByTimeAsync(FRAME_MS * 2);
  streams.newest.say(`retry: 1000\n\n${text}`);
  await vi.advanceTimersByTimeAsync(FRAME_MS);
}

function hide(isHidden: boolean): void {
  vi.spyOn(document, "hidden", "get").mockReturnValue(isHidden);
  document.dispatchEvent(new Event("visibilitychange"));
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("a stream", () => {
  it("is one for all that subscribe within a moment", async () => {
    const { streams, changes, values, show } = start();
    show("a");
    show("b,c");
    await goLive(streams, event("a", "1") + event("b,c", "2"));
    expect(streams.asked.map(({ search }) => search)).toEqual(["ids=a,b%2Cc"]);
    expect(values).toEqual({ a: "1", "b,c": "2" });
    expect(changes.state).toBe("live");
  });

  it("is understood wherever it is cut", async () => {
    const { streams, values, show } = start();
    show("ä");
    await goLive(streams);
    for (const letter of event("ä", "17")) streams.newest.say(letter);
    await vi.advanceTimersByTimeAsync(FRAME_MS);
    expect(values).toEqual({ ä: "17" });
  });

  it("is replaced once while somebody scrolls, and nothing is missed in between", async () => {
    const { streams, values, show } = start();
    show("row0");
    await goLive(streams, event("row0", "1"));
    const first = streams.newest;
    for (let i = 1; i <= 50; i++) {
      show(`row${i}`);
      await vi.advanceTimersByTimeAsync(FRAME_MS);
    }
    first.say(event("row0", "2"));
    await vi.advanceTimersByTimeAsync(FRAME_MS);
    expect(values.row0).toBe("2");
    await vi.advanceTimersByTimeAsync(500);
    expect(streams.asked).toHaveLength(2);
    expect(streams.open).toBe(1);
    expect(streams.newest.search.split(",")).toHaveLength(51);
  });

  it("stays when ids go and come back, which are told at once", async () => {
    const { streams, values, show } = start();
    const end = show("a");
    show("b");
    await goLive(streams, event("a", "1"));
    end();
    streams.newest.say(event("a", "2"));
    await vi.advanceTimersByTimeAsync(1000);
    expect(values.a).toBe("1");
    show("a");
    expect(values.a).toBe("2");
    await vi.advanceTimersByTimeAsync(1000);
    expect(streams.asked).toHaveLength(1);
  });

  it("is closed when nobody listens any more", async () => {
    const { streams, changes, show } = start();
    const end = show("a");
    await goLive(streams);
    end();
    await vi.advanceTimersByTimeAsync(1000);
    expect([streams.open, changes.state]).toEqual([0, "idle"]);
  });

  it("is closed while nobody sees the page, and there again when somebody does", async () => {
    const { streams, changes, values, show } = start();
    show("a");
    await goLive(streams, event("a", "1"));
    hide(true);
    expect([streams.open, changes.state]).toEqual([0, "idle"]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(streams.open).toBe(0);
    hide(false);
    await goLive(streams, event("a", "5"));
    expect([streams.open, changes.state, values.a]).toEqual([1, "live", "5"]);
  });
});

describe("too many ids for a request", () => {
  const long = Array.from({ length: 40 }, (_, i) => `list*/${"x".repeat(200)}${i}`);

  it("are covered by what they begin with", () => {
    const { search, has } = coverageOf(long);
    expect(decodeURIComponent(search)).toBe(`match=list\\*/${"x".repeat(54)}*`);
    expect(long.every(has)).toBe(true);
    expect(has("other")).toBe(false);
  });

  it("may have nothing in common, or half a letter", () => {
    const ends = long.map((id) => id.slice(5));
    expect(decodeURIComponent(coverageOf(["a", ...ends]).search)).toBe("match=*");
    expect(decodeURIComponent(coverageOf(["😀", "😁", ...ends.map((id) => `😁${id}`)]).search)).toBe("match=*");
  });

  it("are read once, then live, whoever comes later", async () => {
    const { streams, values, show } = start();
    for (const id of long) streams.stored[id] = "1";
    for (const id of long.slice(1)) show(id);
    await goLive(streams, event(long[1]!, "9") + event(`${long[0]}0`, "3"));
    await vi.advanceTimersByTimeAsync(500);
    show(long[0]!);
    await vi.advanceTimersByTimeAsync(500);
    expect(streams.asked).toHaveLength(1);
    expect(streams.read).toEqual([long.slice(2), [long[0]]]);
    expect([values[long[0]!], values[long[1]!], values[long[2]!]]).toEqual(["1", "9", "1"]);
    streams.newest.say(event(long[2]!, "2"));
    await vi.advanceTimersByTimeAsync(FRAME_MS);
    expect(values[long[2]!]).toBe("2");
  });
});

describe("without a stream", () => {
  it("one is tried again and again, ever more rarely, and never all at the same moment", async () => {
    const waits = async (random: number) => {
      const { streams, show } = start(random);
      streams.isDown = true;
      const listen = vi.spyOn(streams, "listen");
      show("a");
      const at: number[] = [];
      for (let tries = 0, ms = 0; at.length < 8; ms += 10) {
        if (listen.mock.calls.length > tries) at.push(ms);
        tries = listen.mock.calls.length;
        await vi.advanceTimersByTimeAsync(10);
      }
      return at.slice(1).map((ms, i) => Math.round((ms - at[i]!) / 250) * 250);
    };
    expect(await waits(1)).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
    expect(await waits(0)).toEqual([250, 500, 1000, 2000, 4000, 5000, 5000]);
  });

  it.each([
    ["one that ends before it has said anything", (streams: Streams) => streams.newest.end()],
    ["what is no stream", (streams: Streams) => streams.newest.say("<html>Please sign in to this network</html>")],
  ])("%s is none, and is tried ever more rarely", async (name, answer) => {
    const { streams, changes, show } = start();
    if (name.startsWith("what")) streams.type = "text/html";
    const states = new Set<string>();
    changes.onState(() => states.add(changes.state));
    show("a");
    for (let ms = 0, tries = 0; ms < 20_000; ms += 10) {
      if (streams.asked.length > tries) answer(streams);
      tries = streams.asked.length;
      await vi.advanceTimersByTimeAsync(10);
    }
    expect([...states]).toEqual(["connecting", "down"]);
    expect(streams.asked.length).toBeLessThan(8);
  });

  it("values are read at each try", async () => {
    const { streams, changes, values, show } = start();
    streams.listen = () => Promise.reject(new TypeError("blocked"));
    streams.stored.a = "1";
    show("a");
    await vi.advanceTimersByTimeAsync(100);
    expect([values.a, changes.state]).toEqual(["1", "down"]);
    streams.stored.a = "2";
    await vi.advanceTimersByTimeAsync(1000);
    expect(values.a).toBe("2");
  });

  it("comes back at once when somebody knows that it works", async () => {
    const { streams, changes, show } = start();
    streams.isDown = true;
    show("a");
    await vi.advanceTimersByTimeAsync(60_000);
    streams.isDown = false;
    changes.hurry();
    await goLive(streams);
    expect(changes.state).toBe("live");
  });

  it("a server that takes the question and never answers is down", async () => {
    const { streams, changes, show } = start();
    streams.isHung = true;
    show("a");
    await vi.advanceTimersByTimeAsync(100);
    expect(changes.state).toBe("connecting");
    await vi.advanceTimersByTimeAsync(6000);
    expect(changes.state).toBe("down");
    await vi.advanceTimersByTimeAsync(2000); // the next try is under way, and no better
    expect(changes.state).toBe("down");
  });

  it("one that falls silent is down, and one that ends", async () => {
    const { streams, changes, show } = start();
    show("a");
    await goLive(streams);
    await vi.advanceTimersByTimeAsync(15_000);
    streams.newest.say(":\n\n");
    await vi.advanceTimersByTimeAsync(15_000);
    expect(changes.state).toBe("live");
    await vi.advanceTimersByTimeAsync(6000);
    expect(changes.state).toBe("down");
    await vi.advanceTimersByTimeAsync(1000);
    await goLive(streams);
    expect(changes.state).toBe("live");
    streams.newest.end();
    await vi.advanceTimersByTimeAsync(FRAME_MS);
    expect(changes.state).toBe("down");
  });
});
