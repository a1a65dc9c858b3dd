// Puts the built page into a C source: build/page/page_files.c, for every file its bytes as they
// are and gzipped. The bytes themselves are taken in by the assembler (.incbin), which is quick.
//
// Fails when the first load, or the button, has grown too large. The first load is what index.html names; the chart of a wide
// screen comes after it, and tests/load.test.ts measures both.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const web = fileURLToPath(new URL("..", import.meta.url));
const page = join(web, "../build/page"); // the C source names files from here
const dist = join(page, "dist");
const FIRST_LOAD_MAX = 150 * 1024;
const BUTTON_MAX = 10 * 1024;

const types = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".webp": "image/webp",
  ".woff2": "font/woff2",
};

function fail(text) {
  console.error(`embed: ${text}`);
  process.exit(1);
}

function take(name) {
  if (!/^[\w.-]+$/.test(name)) fail(`${name}: only letters, digits, "_", "-" and "." in names`);
  const type = types[extname(name)] ?? fail(`${name}: a file of no known type`);
  const plain = readFileSync(join(dist, name));
  const gzip = gzipSync(plain, { level: 9 });
  // Vite puts a hash of the content into the names that it makes up itself.
  const isFixed = /-[\w-]{8}\.\w+$/.test(name) && !existsSync(join(web, "public", name));
  const tag = createHash("sha256").update(plain).digest("hex").slice(0, 16);
  return { name, type, plain, gzip, isFixed, tag };
}

const kb = (bytes) => `${(bytes / 1024).toFixed(1)} KB`;
const gzipped = (files) => files.reduce((sum, file) => sum + file.gzip.length, 0);

// What a browser asks for before it shows anything: what index.html names, and itself.
function checkSizes(files) {
  const index = files.find((file) => file.name === "index.html") ?? fail("there is no index.html");
  const button = files.find((file) => file.name === "tally.js") ?? fail("there is no tally.js");
  const named = [...index.plain.toString().matchAll(/(?:src|href)="\/page\/([^"]+)"/g)].map((match) => match[1]);
  const first = files.filter((file) => file === index || named.includes(file.name));
  console.log(`first load ${kb(gzipped(first))} gzipped: ${first.map((file) => file.name).join(" ")}`);
  console.log(`tally.js ${kb(button.gzip.length)} gzipped`);
  if (gzipped(first) > FIRST_LOAD_MAX) fail(`the first load is over ${kb(FIRST_LOAD_MAX)}`);
  if (button.gzip.length > BUTTON_MAX) fail(`tally.js is over ${kb(BUTTON_MAX)}`);
}

function source(files) {
  const bytes = files.flatMap((_, i) => [`BYTES(plain_${i}, "dist/${files[i].name}")`,
                                         `BYTES(gzip_${i}, "gzip/${files[i].name}.gz")`]);
  const rows = files.map((file, i) =>
    `    {"${file.name}", "${file.type}", {page_plain_${i}, ${file.plain.length}}, ` +
    `{page_gzip_${i}, ${file.gzip.length}}, "${file.tag}", ${file.isFixed}},`);
  return `/* Made by web/tools/embed.mjs. */
#include "door/http/http_page.h"

#define BYTES(name, path)                                                      \\
    __asm__(".pushsection .rodata\\n.balign 16\\n.globl page_" #name            \\
            "\\n.hidden page_" #name "\\npage_" #name ":\\n.incbin \\"" path "\\"\\n" \\
            ".popsection\\n");                                                  \\
    extern const char page_##name[];

${bytes.join("\n")}

const struct http_page_file http_page_files[] = {
${rows.join("\n")}
};
const unsigned http_page_file_count = ${files.length};
const bool http_page_is_whole = true;
`;
}

const files = readdirSync(dist).sort().map(take);
checkSizes(files);
rmSync(join(page, "gzip"), { recursive: true, force: true });
mkdirSync(join(page, "gzip"));
for (const file of files) writeFileSync(join(page, "gzip", `${file.name}.gz`), file.gzip);
writeFileSync(join(page, "page_files.c"), source(files));
