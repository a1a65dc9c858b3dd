// Before the first paint, so that nobody sees the wrong theme flash by.
document.documentElement.dataset.theme = localStorage.getItem("tally.theme") ?? "auto";
