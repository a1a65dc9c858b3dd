import react from "@vitejs/plugin-react";
import tailwind from "@tailwindcss/vite";
import { defineConfig } from "vitest/config";

// With `npm run dev` the page comes from Vite and everything else from a tallyd that runs already.
const server = process.env.TALLY_URL ?? "http://127.0.0.1:3001";
const proxy = { target: server, changeOrigin: true, headers: { Origin: server } };

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
  server: { proxy: Object.fromEntries(["/v1", "/livez", "/readyz", "/metrics"].map((path) => [path, proxy])) },
  test: { environment: "jsdom", include: ["src/**/*.test.{ts,tsx}"] },
});
