import { defineConfig } from "vite";

// The button for other sites: one classic script that needs nothing else.
export default defineConfig({
  publicDir: false,
  build: {
    outDir: "../build/page/dist",
    emptyOutDir: false,
    target: "es2022", // for less, helpers would be put before the script's own scope, into that of the site
    lib: { entry: "src/button/tally.ts", formats: ["iife"], name: "Tally", fileName: () => "tally.js" },
  },
});
