// What the pages of this site do by themselves: everything on them can be read without it.
"use strict";

const rows = () => [...document.querySelectorAll("details.row")];

function shown(row) {
  row.open = true;
  row.querySelector("summary").focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

// A link to a sentence or a step opens it.
function opened() {
  const row = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("details");
  if (row) {
    row.open = true;
    row.scrollIntoView({ block: "center" });
  }
}

// Buttons for each value that rows have of something, and a field for a word of the row or of its code.
function filtered(list) {
  const bar = document.createElement("div");
  bar.className = "filter";
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "Which rows are shown");
  const chosen = {};
  const count = document.createElement("output");
  const field = Object.assign(document.createElement("input"), { type: "search", placeholder: "a word of it, or of its code" });
  field.setAttribute("aria-label", "Show the rows that have a word");
  const apply = () => {
    const word = field.value.toLowerCase();
    for (const row of list)
      row.hidden =
        Object.entries(chosen).some(([name, value]) => !(row.dataset[name] ?? "").split("|").includes(value)) ||
        (word !== "" && !row.textContent.toLowerCase().includes(word));
    count.textContent = `${list.filter((row) => !row.hidden).length} of ${list.length}`;
  };
  for (const name of ["level", "revisions", "path"]) {
    const values = [...new Set(list.flatMap((row) => (row.dataset[name] ?? "").split("|")))].filter(Boolean);
    if (values.length < 2) continue;
    if (name !== "path") values.sort();
    const group = document.createElement("span");
    for (const value of values) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: value });
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        group.querySelectorAll("button").forEach((each) => each.setAttribute("aria-pressed", "false"));
        button.setAttribute("aria-pressed", String(on));
        if (on) chosen[name] = value;
        else delete chosen[name];
        apply();
      });
      group.append(button);
    }
    bar.append(group);
  }
  field.addEventListener("input", apply);
  bar.append(field, count);
  const page = list[0].closest("article > section, article") ?? document.body;
  let before = list[0];
  while (before.parentElement !== page && before.parentElement) before = before.parentElement;
  before.before(bar);
  const first = bar.querySelector("button");
  if (list.some((row) => row.dataset.path) && first) first.click();
  else apply();
}

// Up and down go from row to row.
document.addEventListener("keydown", (event) => {
  const row = event.target.closest?.("details.row > summary")?.parentElement;
  if (!row || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
  const list = rows().filter((each) => !each.hidden);
  const next = list[list.indexOf(row) + (event.key === "ArrowDown" ? 1 : -1)];
  if (next) shown(next);
  event.preventDefault();
});

// What differs between two revisions, chosen in two menus.
function compared(parts) {
  const names = [...new Set(parts.flatMap((part) => part.dataset.pair.split(" ")))].sort();
  const menus = document.createElement("div");
  menus.className = "menus";
  const [from, to] = ["from", "to"].map((word, which) => {
    const label = Object.assign(document.createElement("label"), { textContent: `${word} ` });
    const menu = document.createElement("select");
    menu.append(...names.map((name) => new Option(name)));
    menu.value = names[names.length - 2 + which];
    label.append(menu);
    menus.append(label);
    return menu;
  });
  const none = Object.assign(document.createElement("p"), { textContent: "A revision does not differ from itself." });
  const apply = () => {
    const pair = [from.value, to.value].sort().join(" ");
    for (const part of parts) part.hidden = part.dataset.pair !== pair;
    none.hidden = from.value !== to.value;
  };
  menus.addEventListener("change", apply);
  parts[0].before(menus, none);
  apply();
}

// Slides: each part of the page, one at a time over the whole screen.
function presented(page) {
  const all = [...page.querySelectorAll(":scope > section")];
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Show them, full screen" });
  let now = 0;
  const go = (number) => {
    now = Math.max(0, Math.min(all.length - 1, number));
    all.forEach((slide, which) => slide.classList.toggle("now", which === now));
  };
  button.className = "present";
  button.addEventListener("click", () => page.requestFullscreen().then(() => go(0)));
  page.querySelector("h1").after(button);
  document.addEventListener("keydown", (event) => {
    if (document.fullscreenElement !== page) return;
    if (["ArrowRight", "PageDown", " "].includes(event.key)) go(now + 1);
    else if (["ArrowLeft", "PageUp"].includes(event.key)) go(now - 1);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(all.length - 1);
    else return;
    event.preventDefault();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  // What scrolls can be scrolled by keys.
  for (const box of document.querySelectorAll(".highlight pre, .table-wrapper, .picture")) box.tabIndex = 0;
  const wide = rows().filter((row) => row.classList.contains("wide"));
  if (wide.length) filtered(wide);
  const parts = [...document.querySelectorAll("[data-pair]")];
  if (parts.length) compared(parts);
  const slides = document.getElementById("slides-for-the-class");
  if (slides) presented(slides);
  opened();
});
addEventListener("hashchange", opened);
