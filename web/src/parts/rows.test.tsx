import { act } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, expect, it, vi } from "vitest";
import { Rows } from "./rows";

afterEach(() => vi.unstubAllGlobals());

it("a list that is taken away while somebody reads in it is not held any more", async () => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  const place = document.createElement("div");
  const root = createRoot(place);
  const onHold = vi.fn();
  await act(async () => root.render(
    <Rows label="Letters" rows={["a"]} columns="" head="" keyOf={(row) => row} onHold={onHold}>{(row) => row}</Rows>));
  const list = place.querySelector('[tabindex="0"]')!;
  list.scrollTop = 50;
  await act(async () => void list.dispatchEvent(new Event("scroll")));
  expect(onHold).toHaveBeenLastCalledWith(true);
  await act(async () => root.render(<p>Nothing</p>));
  expect(onHold).toHaveBeenLastCalledWith(false);
  await act(async () => root.unmount());
});
