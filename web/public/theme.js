// Before the first paint, so that nobody sees the wrong theme flash by.
let theme = "auto";
try {
  theme = localStorage.getItem("tally.theme") ?? theme;
} catch {
  // The browser may not remember anything.
}
document.documentElement.dataset.theme = theme;
