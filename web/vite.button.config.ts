import { defineConfig } from "vite";

// The button for other sites: one classic script that needs nothing else.
export default defineConfig({
  publicDir: false,
  build: {
    outDir: "../build/page/dist",
    emptyOutDir: false,
    target: "es2020",
    lib: { entry: "src/button/tally.ts", formats: ["iife"], name: "Tally", fileName: () => "tally.js" },
  },
});
