(() => {
  const $ = (id) => document.getElementById(id);
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  let shown = "";

  function show(now) {
    const text = JSON.stringify(now);
    if (text === shown) return;
    shown = text;
    showPeople(now);
    showInvitation(now.invitation);
    const { words, pairs, common, disagreements } = now.agreement;
    $("words").textContent = words;
    $("pairs").hidden = $("pairs-note").hidden = !common;
    $("pairs").tBodies[0].replaceChildren(...pairs.map(pairRow));
    $("differ").hidden = !disagreements.length;
    $("disagreements").tBodies[0].replaceChildren(...disagreements.map((found) => difference(found, now.me)));
  }

  function showPeople(now) {
    $("people-list").replaceChildren(...now.people.map((person) => {
      const item = element("li", {}, element("strong", {}, person.name));
      if (person.me) item.append(element("span", { class: "chip" }, "you"));
      const finished = person.phase === "done";
      item.append(element("p", { class: "quiet" }, `${plural(person.answers, "answer")}${finished ? ", finished" : " so far"}`));
      if (finished) item.append(element("p", { class: "goal" }, person.goal ?? "What they want is being worked out …"));
      return item;
    }));
    if (document.activeElement !== $("name") && !$("name").hasAttribute("aria-invalid")) $("name").value = now.me;
  }

  function showInvitation(invitation) {
    $("invite").hidden = !invitation;
    if (!invitation) return;
    $("link").value = (invitation.base || location.origin) + invitation.path;
    $("note").hidden = !invitation.note;
    $("note").textContent = invitation.note || "";
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
    const name = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(name, "svg");
    svg.setAttribute("viewBox", "0 0 100 10");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("class", "share-bar");
    svg.setAttribute("aria-hidden", "true");
    const draw = (kind, attributes) => {
      const made = document.createElementNS(name, kind);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      svg.append(made);
    };
    draw("rect", { class: "track", x: 0, y: 2, width: 100, height: 6 });
    draw("rect", { class: "share", x: 0, y: 2, width: 100 * pair.equal / pair.common, height: 6 });
    const [low, high] = [100 * pair.low, 100 * pair.high];
    draw("path", { class: "whisker", d: `M${low} 5 H${high} M${low} 1 V9 M${high} 1 V9` });
    return svg;
  }

  // Those who would do the same stand together.
  function difference(found, me) {
    const actions = [...new Set(found.answers.map(({ action }) => action))];
    const said = actions.map((action) => {
      const names = found.answers.filter((one) => one.action === action).map(({ name }) => name);
      const called = names.map((name) => (name === me ? `${name} (you)` : name)).join(", ");
      return element("span", { class: names.includes(me) ? "said mine" : "said" }, element("b", {}, action), called);
    });
    return element("tr", {}, element("th", { scope: "row" }, capital(found.situation)), element("td", {}, ...said));
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
  $("copy").addEventListener("click", async () => {
    $("link").select();
    try {
      await navigator.clipboard.writeText($("link").value);
      $("copied").textContent = "Copied.";
    } catch { $("copied").textContent = "It is marked now: copy it as you copy any text."; }
  });

  show(JSON.parse($("first").textContent));
  setTimeout(poll, 1000);
})();
