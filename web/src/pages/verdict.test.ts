import { expect, it } from "vitest";
import type { Status } from "../lib/status";
import { verdict } from "./verdict";

const part = (name: string, ok: boolean, needed: boolean) => ({ name, ok, needed, reason: ok ? "" : "why" });
const status = (pipeline: Partial<NonNullable<Status["pipeline"]>> = {}, parts = [part("log", true, true), part("store", true, false)]) =>
  ({ parts, pipeline: { pending: 0, succeeded: 9, retrying: 0, dead_letters: 0, ...pipeline } }) as Status;

it("all is well when nothing waits for anybody", () => {
  expect(verdict(status(), true)).toMatchObject({ tone: "good", text: "All is well" });
  expect(verdict(status({ pending: 5 }), true)).toMatchObject({ tone: "good" });
});

it("dead letters are told, and where to decide about them", () => {
  expect(verdict(status({ dead_letters: 2 }), true)).toEqual({ tone: "warn", text: "2 dead letters wait for a decision", to: ["pipeline", "dead-letters"] });
  expect(verdict(status({ dead_letters: 1 }), true).text).toBe("1 dead letter waits for a decision");
  expect(verdict(status({ retrying: 3 }), true)).toMatchObject({ tone: "warn", text: "The store refuses some changes; they are tried again" });
});

it("what is worse is told first", () => {
  const storeDown = [part("log", true, true), part("store", false, false)];
  const logDown = [part("log", false, true), part("store", false, false)];
  expect(verdict(status({ dead_letters: 2 }, storeDown), true)).toMatchObject({ tone: "warn", text: "Works, but a part is down" });
  expect(verdict(status({ dead_letters: 2 }, logDown), true)).toMatchObject({ tone: "bad", text: "Writes are not possible" });
});

it("a server that does not answer is not well, whatever it said before", () => {
  expect(verdict(status(), false)).toMatchObject({ tone: "bad", text: "The server does not answer" });
  expect(verdict(undefined, false)).toMatchObject({ tone: "bad" });
  expect(verdict(undefined, true)).toMatchObject({ tone: "plain" });
});
