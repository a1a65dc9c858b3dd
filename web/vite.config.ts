import react from "@vitejs/plugin-react";
import tailwind from "@tailwindcss/vite";
import { defineConfig } from "vitest/config";

// With `npm run dev` the page comes from Vite and everything else from a tallyd that runs already.
const server = process.env.TALLY_URL ?? "http://127.0.0.1:3001";

export default defineConfig({
  plugins: [react(), tailwind()],
  base: "/page/",
  build: {
    outDir: "../build/page/dist",
    emptyOutDir: true,
    assetsDir: ".",
    assetsInlineLimit: 0, // the Content-Security-Policy allows no data: scripts
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  server: { proxy: { "/v1": server, "/readyz": server, "/metrics": server } },
  test: { environment: "jsdom", include: ["src/**/*.test.{ts,tsx}"] },
});
