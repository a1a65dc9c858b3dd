import { defineConfig } from "vitest/config";

// The page in a real browser, served by a real tallyd: see tests/lab.ts.
export default defineConfig({
  test: {
    environment: "node",
    include: ["tests/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
    expect: { poll: { timeout: 20_000, interval: 50 } }, // the machine may be busy with other tests
  },
});
