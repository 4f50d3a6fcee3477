(() => {
  const $ = (id) => document.getElementById(id);
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  let shown = "", now = null, panels = null, leaving = "";

  function show(next) {
    const text = JSON.stringify(next);
    if (text === shown) return;
    shown = text;
    now = next;
    showPeople();
    showInvitations();
    const { words, pairs, common, disagreements, few, minimum } = now.agreement;
    $("words").textContent = words;
    $("pairs").hidden = $("pairs-note").hidden = !common;
    $("pairs").tBodies[0].replaceChildren(...pairs.map(pairRow));
    $("few").textContent = few;
    $("minimum").hidden = !now.host;
    if (document.activeElement !== $("answers")) $("answers").value = minimum;
    $("differ").hidden = !disagreements.length;
    $("disagreements").tBodies[0].replaceChildren(...disagreements.map(difference));
    if (disagreements.some(({ key }) => key in now.states) && !panels) loadPanels();
  }

  async function decide(path, body) {
    const { content, error } = await ask(path, body);
    trouble(error);
    if (content) show(content);
    return !error;
  }

  function showPeople() {
    $("people-list").replaceChildren(...now.people.map((person) => {
      const item = element("li", {}, element("strong", {}, person.name), element("span", { class: "chip" }, person.role));
      if (person.me) item.append(element("span", { class: "chip" }, "you"));
      const finished = person.phase === "done";
      item.append(element("p", { class: "quiet" }, `${plural(person.answers, "answer")}${finished ? ", finished" : " so far"}`));
      if (finished) item.append(element("p", { class: "goal" }, person.goal ?? "What they seem to want is being worked out …"));
      if (now.host && person.role === "guest") {
        const button = element("button", { type: "button", class: "plain remove" }, "Remove");
        button.setAttribute("aria-label", `Remove ${person.name}`);
        button.addEventListener("click", () => {
          leaving = person.name;
          $("remove-title").textContent = `Remove ${person.name}?`;
          $("remove-dialog").returnValue = "";
          $("remove-dialog").showModal();
        });
        item.append(button);
      }
      return item;
    }));
    if (document.activeElement !== $("name") && !$("name").hasAttribute("aria-invalid")) $("name").value = now.me;
  }

  function showInvitations() {
    $("invite").hidden = !now.host;
    if (!now.host) return;
    $("links").replaceChildren(...now.host.links.map(({ token, seats, taken }) => {
      const left = `${plural(seats - taken, "seat")} left`;
      const field = element("input", { type: "text", class: "invitation", readonly: "", "aria-label": `Link, ${left}` });
      field.value = `${now.host.base || location.origin}/${token}/`;
      const copy = element("button", { type: "button", class: "primary" }, "Copy");
      copy.addEventListener("click", () => copied(field));
      const revoke = element("button", { type: "button", class: "plain" }, "Revoke");
      revoke.addEventListener("click", () => decide("revoke", { token }));
      return element("li", { class: "link" }, field, element("span", { class: "quiet" }, left), copy, revoke);
    }));
    $("note").hidden = !now.host.note;
    $("note").textContent = now.host.note || "";
    $("broken").replaceChildren(...Object.entries(now.host.broken).map(([name, why]) => element("li", {}, `${name} could not be opened and is left out: ${why}`)));
  }

  async function copied(field) {
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
      $("copied").textContent = "Copied.";
    } catch { $("copied").textContent = "It is marked now: copy it as you copy any text."; }
  }

  // The environment's own pictures, to show where a situation is.
  async function loadPanels() {
    panels = [];
    const { content } = await ask("panels");
    panels = content ? content.panels : [];
    shown = "";
    show(now);
  }

  function drawn(kind, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function pairRow(pair) {
    const same = pair.common ? `${pair.equal} of ${pair.common}` : "–";
    return element("tr", {},
      element("th", { scope: "row" }, pair.people.join(" and ")),
      element("td", {}, same),
      element("td", { class: "meter" }, pair.common ? bar(pair) : ""),
      element("td", { class: "range" }, pair.words));
  }

  // The share of equal answers, and between what it lies.
  function bar(pair) {
    const svg = drawn("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "share-bar", "aria-hidden": "true" });
    const [low, high] = [100 * pair.low, 100 * pair.high];
    svg.append(
      drawn("rect", { class: "track", x: 0, y: 2, width: 100, height: 6 }),
      drawn("rect", { class: "share", x: 0, y: 2, width: 100 * pair.equal / pair.common, height: 6 }),
      drawn("path", { class: "whisker", d: `M${low} 5 H${high} M${low} 1 V9 M${high} 1 V9` }));
    return svg;
  }

  // Those who would do the same stand together; the host says which of it counts.
  function difference(found) {
    const actions = [...new Set(found.answers.map(({ action }) => action))];
    const said = actions.map((action) => {
      const names = found.answers.filter((one) => one.action === action).map(({ name }) => name);
      const called = names.map((name) => (name === now.me ? `${name} (you)` : name)).join(", ");
      return element("span", { class: names.includes(now.me) ? "said mine" : "said" }, element("b", {}, action), called);
    });
    const told = element("div", { class: "told" }), where = element("th", { scope: "row" }, told);
    if (found.key in now.states) told.append(spot(panels || [], now.states[found.key]));
    told.append(element("span", {}, capital(found.situation)));
    return element("tr", {}, where, element("td", {}, ...said), element("td", {}, now.host ? choice(found, actions) : counts(found)));
  }

  const counts = (found) => (found.settled === null ? "Not settled yet" : now.agreement.actions[found.settled]);

  function choice(found, actions) {
    const group = element("div", { class: "choices", role: "group", "aria-label": `What counts in ${found.situation}` });
    for (const name of actions) {
      const number = now.agreement.actions.indexOf(name), counted = found.settled === number;
      const button = element("button", { type: "button", "aria-pressed": String(counted) }, name);
      button.addEventListener("click", () => decide("settle", { situation: found.key, action: counted ? null : number }));
      group.append(button);
    }
    return group;
  }

  function trouble(words) {
    $("trouble").hidden = !words;
    $("trouble").textContent = words || "";
  }

  async function poll() {
    const { content, error } = await ask("people.json");
    trouble(error);
    if (content) show(content);
    setTimeout(poll, 3000);
  }

  $("rename").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { content, error } = await ask("name", { name: $("name").value });
    wrong($("name"), error);
    if (error) return $("name").focus();
    $("name").blur();
    show(content);
  });
  $("make").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { content, error } = await ask("invite", { seats: Number($("seats").value) });
    wrong($("seats"), error);
    if (content) show(content);
  });
  $("minimum").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { content, error } = await ask("minimum", { answers: Number($("answers").value) });
    wrong($("answers"), error);
    if (content) show(content);
  });
  $("remove-dialog").addEventListener("close", () => { if ($("remove-dialog").returnValue === "remove") decide("remove", { name: leaving }); });

  show(JSON.parse($("first").textContent));
  setTimeout(poll, 1000);
})();
