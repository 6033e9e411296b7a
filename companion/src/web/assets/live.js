// Keeps a page up to date: requests it again, and replaces changed nodes in the parts marked `data-live`. Unchanged
// nodes stay, so the page keeps its scroll positions, focus, selected text and checked boxes.
"use strict";

const every = Number(document.body.dataset.refresh || 0);
const pulse = document.getElementById("pulse");
const stale = document.getElementById("stale");
const pause = document.getElementById("pause");
let answered = new Date();
let isPaused = false;

// Returns the identity of a row: its ID, or its first link.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  return node.id || (node.tagName === "TR" && node.querySelector("a")?.getAttribute("href")) || "";
}

function isAlike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

// Makes `old` equal to `fresh`.
function update(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  // The button says that it has copied.
  if (old.outerHTML === fresh.outerHTML || old.matches("[data-copy]")) return;
  for (const { name } of [...old.attributes]) {
    // Keeps `open`, because the user opens and closes `details` elements.
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    let same = place;
    while (same && !isAlike(same, wanted)) same = same.nextSibling;
    if (!same) {
      old.insertBefore(wanted, place);
      continue;
    }
    while (place !== same) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
    update(same, wanted);
    place = same.nextSibling;
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

async function refresh() {
  const answer = await fetch(location.href, { credentials: "same-origin", signal: AbortSignal.timeout(15000) });
  if (!answer.ok) throw new Error(answer.statusText);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (isPaused) return;
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (fresh) update(part, fresh);
  }
}

function show(isLost) {
  pulse.classList.toggle("lost", isLost);
  pulse.title = isLost ? "no answer" : isPaused ? "paused" : "live";
  stale.hidden = !isLost;
  stale.textContent = isLost ? `No answer since ${answered.toISOString().slice(11, 19)} UTC: the figures are old.` : "";
}

async function live() {
  try {
    if (!document.hidden && !isPaused) {
      await refresh();
      answered = new Date();
      show(false);
    }
  } catch {
    show(true);
  }
  // What is still being counted is shown sooner.
  setTimeout(live, document.querySelector("[data-soon]") ? every / 4 : every);
}
if (every) {
  setTimeout(live, every);
  pause.hidden = false;
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Go on" : "Pause";
    show(false);
  });
}

// Escape closes the open form around the focus, or answers a question with no.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = event.target.closest?.("details[open]");
  if (!open) return document.querySelector("[data-cancel]")?.click();
  open.open = false;
  open.querySelector("summary").focus();
});

// The checkbox that selects all.
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-all]")) return;
  for (const box of event.target.form.querySelectorAll("input[name=id]")) box.checked = event.target.checked;
});

// Copies a part of the page. navigator.clipboard exists only over HTTPS. Without this script, the buttons are hidden.
document.documentElement.classList.add("scripted");
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
  button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl-C";
});

// Shows the values of a chart at the pointer.
const shows = {
  number: (value) => Math.round(value).toLocaleString("en"),
  rate: (value) => `${value.toFixed(value < 10 ? 1 : 0)}/s`,
  ms: (value) => value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`,
  bytes: (value) => `${(value / 1048576).toFixed(1)} MB`,
  percent: (value) => `${value.toFixed(1)} %`,
};
document.addEventListener("pointermove", (event) => {
  const plot = event.target.closest?.(".plot");
  for (const old of document.querySelectorAll(".reading")) if (old.parentNode !== plot) old.remove();
  if (!plot) return;
  const frame = plot.getBoundingClientRect();
  const x = (event.clientX - frame.left) / frame.width;
  const values = [...plot.querySelectorAll("g")].map((group) => {
    const lines = [...group.querySelectorAll("polyline")].map((line) => line.getAttribute("points"));
    const points = lines.join(" ").split(" ").filter(Boolean).map((point) => point.split(",").map(Number));
    const nearest = points.reduce((best, point) => Math.abs(point[0] / 300 - x) < Math.abs(best[0] / 300 - x) ? point : best, points[0] || [0, 100]);
    return shows[plot.dataset.unit]((100 - nearest[1]) / 100 * Number(plot.dataset.top));
  });
  const at = new Date(Number(plot.dataset.first) + x * (plot.dataset.last - plot.dataset.first));
  const reading = plot.querySelector(".reading") || plot.appendChild(Object.assign(document.createElement("span"), { className: "reading" }));
  reading.textContent = `${at.toISOString().slice(11, 19)} UTC  ${values.join("  ")}`;
});
