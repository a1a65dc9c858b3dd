customElements.define("tally-reactions", class extends HTMLElement {});
