import browser from "./vitest.browser.config";

export default { ...browser, test: { ...browser.test, include: ["tests/screenshots.ts"] } };
