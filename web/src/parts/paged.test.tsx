import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { PagedList } from "./paged";

const place = document.createElement("div");
let root: Root;

beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  root = createRoot(place);
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
});

it.each([[undefined, "Nobody"], ["1970-01-01T00:00:00.000Z", "No members that are known"]])("that nothing is known is not told as nothing (as of %s)", async (oldAsOf, text) => {
  const paged = { rows: [], isLoading: false, isWhole: true, oldAsOf, more: () => {}, reload: () => {}, hold: () => {} };
  await act(async () => root.render(
    <PagedList label="Members" paged={paged} things="members" rowHeight={40} columns="" head={null} keyOf={String} empty={<p>Nobody</p>}>{() => null}</PagedList>,
  ));
  expect(place.textContent).toContain(text);
  expect(place.textContent!.includes("Nobody")).toBe(oldAsOf === undefined);
});
