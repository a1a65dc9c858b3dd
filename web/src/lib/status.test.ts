import { expect, it } from "vitest";
import { lagText, type Status } from "./status";

const pipeline = (lag_is_estimated?: boolean) => ({ lag_is_estimated }) as Status["pipeline"];

it("what is estimated is not shown as a count", () => {
  expect(lagText(51_439, pipeline(true))).toBe("about 51.4K");
  expect(lagText(60_000, pipeline(false))).toBe("60K");
  expect(lagText(60_000, pipeline())).toBe("about 60K"); // a server that does not say
  expect(lagText(60_000, undefined)).toBe("about 60K");
  expect(lagText(0, pipeline(true))).toBe("0");
});
