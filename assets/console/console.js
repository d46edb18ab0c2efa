// What the console does better with scripts. Every page works without this file.

// Somebody else saves the row that is open: say so, and leave the form alone.
function watch(place) {
  const { events, history } = place.dataset;
  let version = Number(place.dataset.version);
  let source;

  function show(text, link) {
    const sentence = document.createElement("span");
    sentence.textContent = text;
    const rest = document.createElement("a");
    rest.href = link.address;
    rest.textContent = link.text;
    place.replaceChildren(sentence, rest);
  }

  function saved(event) {
    const { version: newest, by } = JSON.parse(event.data);
    if (newest === version) return;
    version = newest;
    const who = by ? `saved by ${by}` : "saved";
    show(`Version ${newest} was ${who}. What you typed is untouched.`, {
      address: `${history}?from=${place.dataset.version}&to=${newest}#compare`,
      text: "Compare",
    });
  }

  function deleted(event) {
    const { by } = JSON.parse(event.data);
    source.close();
    show(`This row was deleted by ${by}. What you typed is untouched; save to restore it with your changes.`, {
      address: history,
      text: "History",
    });
  }

  function open() {
    const address = new URL(events, location.href);
    address.searchParams.set("version", version);
    source = new EventSource(address);
    source.addEventListener("saved", saved);
    source.addEventListener("deleted", deleted);
  }

  // A page that nobody looks at asks nothing of the server.
  document.addEventListener("visibilitychange", () => {
    source?.close();
    if (!document.hidden) open();
  });
  window.addEventListener("pagehide", () => source?.close());
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) open();
  });
  if (!document.hidden) open();
}

// "No value" and a text exclude each other; say so while it is typed.
function pair(box) {
  const input = document.getElementById(box.dataset.none);
  if (!input) return;
  input.addEventListener("input", () => {
    if (input.value !== "") box.checked = false;
  });
}

// Who types a value of their own has decided for it.
function edit(area) {
  const own = area.parentElement.querySelector('input[type="radio"][value="edit"]');
  if (own) area.addEventListener("input", () => (own.checked = true));
}

// A page with unsaved changes does not close unasked.
function guard(form) {
  let dirty = form.dataset.guard === "dirty";
  form.addEventListener("input", () => (dirty = true));
  form.addEventListener("submit", () => (dirty = false));
  window.addEventListener("beforeunload", (event) => {
    if (dirty) event.preventDefault();
  });
}

document.querySelectorAll("[data-events]").forEach(watch);
document.querySelectorAll("[data-none]").forEach(pair);
document.querySelectorAll(".choose > .edit").forEach(edit);
document.querySelectorAll("form[data-guard]").forEach(guard);
