// The page: a pad whose digit is named while it is drawn, and a search over sentences by meaning.
import { features, load } from "./digits.mjs";
import { imageOf } from "./pad.mjs";
import { Search } from "./search.mjs";

const at = (id) => document.getElementById(id);
const milliseconds = (since) => `${(performance.now() - since).toFixed(1)} ms`;

function describeMachine() {
  const { relaxed, threads } = features();
  const cores = navigator.hardwareConcurrency;
  const parts = [
    relaxed ? "relaxed SIMD" : "SIMD",
    threads ? `threads (${cores} cores)` : "one thread, as the page is not cross-origin isolated",
  ];
  at("machine").textContent = `Nothing leaves this machine. This browser has ${parts.join(", ")}.`;
}

async function startDigits() {
  const begin = performance.now();
  const model = await load({ threads: 1 });
  const pad = at("pad"),
    ink = pad.getContext("2d", { willReadFrequently: true });
  const status = at("digit-status");
  const bars = Array.from({ length: 10 }, () => {
    const row = at("bars").appendChild(document.createElement("li"));
    row.append(document.createElement("span"));
    return row;
  });
  Object.assign(ink, { lineWidth: 22, lineCap: "round", lineJoin: "round" });
  ink.strokeStyle = getComputedStyle(document.body).color;
  status.textContent = `ready after ${milliseconds(begin)} (module: ${model.variant})`;

  function show(probabilities) {
    const best = probabilities ? probabilities.indexOf(Math.max(...probabilities)) : -1;
    bars.forEach((row, digit) => {
      row.className = digit === best ? "best" : "";
      row.firstChild.style.width = `${90 * (probabilities?.[digit] ?? 0)}%`;
    });
    pad.dataset.digit = best;
  }

  function recognise() {
    const image = imageOf(pad);
    if (!image) return show(null);
    const since = performance.now();
    const { probabilities } = model.runSync({ image });
    status.textContent = `named in ${milliseconds(since)}`;
    show(probabilities.data);
  }

  let from = null;
  const place = (event) => {
    const box = pad.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  pad.addEventListener("pointerdown", (event) => {
    from = place(event);
    if (event.isTrusted) pad.setPointerCapture(event.pointerId);
  });
  pad.addEventListener("pointermove", (event) => {
    if (!from) return;
    const to = place(event);
    ink.beginPath();
    ink.moveTo(...from);
    ink.lineTo(...to);
    ink.stroke();
    from = to;
    recognise();
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    pad.addEventListener(kind, () => (from = null));
  }
  at("clear").addEventListener("click", () => {
    ink.clearRect(0, 0, pad.width, pad.height);
    show(null);
  });
}

async function startSearch() {
  const bar = at("progress"),
    status = at("search-status"),
    query = at("query");
  const { search, reason } = await (await fetch("models.json")).json();
  if (!search) {
    status.textContent = reason;
    return;
  }
  const begin = performance.now();
  bar.hidden = false;
  status.textContent = "loading the model";
  const engine = await Search.start(({ loaded, total }) => (bar.value = loaded / total));
  bar.hidden = true;
  status.textContent =
    `${engine.sentences.length} sentences read, ready after ${milliseconds(begin)} ` +
    `(module: ${engine.variant}, threads: ${engine.threads})`;
  query.disabled = false;

  async function answer() {
    const since = performance.now();
    const found = query.value.trim() ? await engine.find(query.value, 5) : [];
    at("found").replaceChildren(
      ...found.map(({ sentence, score }) => {
        const row = document.createElement("li"),
          small = document.createElement("small");
        small.textContent = score.toFixed(2);
        row.append(sentence, small);
        return row;
      }),
    );
    if (found.length) status.textContent = `found in ${milliseconds(since)}`;
  }
  // One question at a time; what was typed meanwhile is asked next.
  let asked = false,
    busy = false;
  query.addEventListener("input", async () => {
    asked = true;
    if (busy) return;
    busy = true;
    while (asked) {
      asked = false;
      await answer().catch((error) => (status.textContent = error.message));
    }
    busy = false;
  });
}

describeMachine();
startDigits().catch((error) => (at("digit-status").textContent = error.message));
startSearch().catch((error) => (at("search-status").textContent = error.message));
