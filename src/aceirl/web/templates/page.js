(() => {
  const $ = (id) => document.getElementById(id);
  const about = JSON.parse($("about").textContent);
  let now = JSON.parse($("first").textContent);
  let busy = false;
  let replaying = 0;
  let begun = now.turn > 0, ended = false, saying = "", brush = true, dragged = null, playedByKey = false;
  const painted = new Set();
  let refused = "";
  // A click that comes this soon after a new question was meant for the one before.
  const SETTLING = 400, RESTING = 600;
  // What could not be had is asked for again after so long.
  const AGAIN = 2000;
  let shownAt = -Infinity, settling = 0;
  // What went wrong, by the request it went wrong with: the same request has to work for it to be over.
  const problems = new Map();
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const ARROWS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };
  const SIDES = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

  // Talking to the server

  async function ask(path, body) {
    const options = body === undefined ? {} : {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
    };
    const kind = body === undefined ? path.split("?")[0] : "change";
    let sent = null;
    refused = "";
    try {
      const response = await fetch(path, { ...options, cache: "no-store" });
      problems.delete("server");
      const content = response.status === 204 ? null : await response.json();
      if (response.ok || response.status === 409) {
        problems.delete(kind);
        sent = content;
      } else if (response.status === 403) {
        problems.set("server", "This address does not work any more: you were removed, or the interview was set up again.");
      } else {
        problems.set(kind, content.error);
        refused = content.error;
      }
    } catch {
      // What was done and did not arrive is said until something arrives; polls, which succeed again soon, do not wipe it out.
      if (kind === "change") problems.set(kind, "The server does not answer: your last step did not arrive. Nothing else is lost. Do it once more.");
      else problems.set("server", "The server does not answer. Start the same command again; nothing is lost, and this page goes on by itself.");
    }
    showTrouble();
    return sent;
  }

  // What answers a question waits until the question has been there for a moment; `atOnce` is for all else.
  async function act(path, body, atOnce = false) {
    if (busy || (!atOnce && performance.now() - shownAt < SETTLING)) return;
    busy = true;
    const sent = await ask(path, { turn: now.turn, ...body });
    busy = false;
    if (sent) show(sent);
  }

  async function poll() {
    if (!busy) {
      const sent = await ask(`view?have=${encodeURIComponent(now.tag)}`);
      if (sent && !busy) show(sent);
    }
    const waiting = now.phase === "walking" || now.phase === "thinking" || !now.belief.ready;
    setTimeout(poll, waiting ? 350 : 1200);
  }

  function showTrouble() {
    const words = problems.get("server") || now.trouble || [...problems.values()][0];
    $("trouble").hidden = !words;
    if (words !== $("trouble").textContent) $("trouble").textContent = words || "";
  }

  // Drawing

  function shape(name, attributes, text) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function mapPanel(states) {
    const xs = states.map((s) => s.x), ys = states.map((s) => s.y);
    const left = Math.min(...xs) - 0.6, right = Math.max(...xs) + 0.6;
    const low = Math.min(...ys) - 0.6, high = Math.max(...ys) + 0.6;
    // A small world is not blown up until its cells are huge: it keeps room around it.
    const margin = Math.max(0, (5 - (right - left)) / 2);
    return shape("svg", { viewBox: `${left - margin} ${-high} ${right - left + 2 * margin} ${high - low}`, "aria-hidden": "true" });
  }

  function cell(state, classes) {
    const round = about.shape === "ring";
    const box = shape("rect", { x: state.x - 0.44, y: -state.y - 0.44, width: 0.88, height: 0.88, rx: round ? 0.44 : 0.12, class: classes });
    box.append(shape("title", {}, state.name));
    return box;
  }

  // The cells, a way through them, and the agent at its end.
  function drawScene(target, way) {
    const states = now.belief.states;
    const svg = mapPanel(states);
    const spot = way[way.length - 1];
    for (const state of states) svg.append(cell(state, state === spot ? "cell here" : "cell"));
    if (way.length > 1) svg.append(shape("polyline", { class: "way", points: way.map((s) => `${s.x},${-s.y}`).join(" ") }));
    if (way.length) svg.append(shape("circle", { class: "start", cx: way[0].x, cy: -way[0].y, r: 0.3 }));
    if (spot) svg.append(shape("circle", { class: "agent", cx: spot.x, cy: -spot.y, r: 0.27 }));
    if (states.length <= 12) for (const s of states) svg.append(shape("text", { class: "label", x: s.x, y: -s.y + 0.36 }, label(s)));
    target.replaceChildren(svg);
  }

  function places(path) {
    const at = new Map(now.belief.states.map((s) => [s.state, s]));
    return path.map((state) => at.get(state)).filter(Boolean);
  }

  const label = (state) => state.name.replace(/^(cell|place|row) /, "").replace(/, column /, ",");

  function drawPicture(target, url, words) {
    const image = document.createElement("img");
    image.src = url;
    image.alt = words;
    image.draggable = false;
    target.replaceChildren(image);
  }

  function drawBelief(target, legend) {
    const { states, list, ready, panel: title } = now.belief;
    if (list.length) return drawList(target, legend, list);
    if (!states.length || !now.progress.answers) {
      legend.textContent = "";
      target.replaceChildren(note(now.phase === "done" ? "There is nothing to draw." : "A picture comes with your first answers."));
      return;
    }
    const most = Math.max(...states.map((s) => s.reward || 0), 1e-9);
    const svg = mapPanel(states);
    let guesses = false;
    for (const state of states) {
      const level = ready && state.reward ? Math.round(8 * state.reward / most) : 0;
      svg.append(cell(state, `cell w${level}${state.end ? " end" : ""}`));
      if (state.end) {
        svg.append(endLabel(state, level));
        continue;
      }
      const action = state.said ?? (ready ? state.guess : undefined);
      if (action === undefined || (state.said === undefined && !state.reward)) continue;
      const guess = state.said === undefined;
      guesses = guesses || guess;
      svg.append(mark(state, about.actions[action], level, guess));
    }
    target.replaceChildren(svg);
    const best = [...states].sort((a, b) => (b.reward || 0) - (a.reward || 0))[0];
    target.setAttribute("aria-label", ready && best.reward ? `A map. Most reward: ${best.name}.` : "A map without rewards.");
    target.removeAttribute("aria-labelledby");
    legend.replaceChildren(title ? `${title}: less` : "Less", ramp(), explained(guesses), states.some((s) => s.end) ? DASHED : "");
  }

  function ramp() {
    const all = document.createElement("span");
    all.className = "ramp";
    for (let level = 0; level <= 8; level += 1) {
      const step = document.createElement("i");
      step.className = `w${level}`;
      all.append(step);
    }
    return all;
  }

  const DASHED = " Dashed: where an episode ends.";
  const explained = (guesses) => `more reward. Arrows: what you said${guesses ? "; faint ones: what it would do where you gave no answer" : ""}.`;

  // A map panel of the last screen: what each place is worth, over the environment's own picture.
  function drawPanel(target, legend, panel) {
    const known = now.outcome.places;
    const states = panel.places.map(([state, x, y]) => ({ ...known[state], x, y }));
    const most = Math.max(...known.map((s) => s.reward || 0), 1e-9);
    let svg = mapPanel(states);
    if (panel.box) {
      const [left, right, low, high] = panel.box;
      const frame = { x: left, y: -high, width: right - left, height: high - low };
      svg = shape("svg", { viewBox: `${left} ${-high} ${right - left} ${high - low}`, "aria-hidden": "true" });
      if (panel.picture) svg.append(shape("image", { ...frame, href: panel.picture, preserveAspectRatio: "none" }));
    }
    // Where most is open, the words beside the map say so.
    const fewOpen = 2 * states.filter((s) => s.open).length <= states.length;
    let guesses = false, open = false;
    for (const state of states) {
      const level = Math.round(8 * (state.reward || 0) / most);
      const ink = level > 4 ? "on-bright" : "on-dark";
      const box = cell(state, `cell w${level}${state.end ? " end" : ""}${panel.picture ? " over" : ""}`);
      box.addEventListener("click", () => { if (!$("choose").hidden) choose($("keep-away").checked ? "avoids" : "wants", state.state); });
      svg.append(box);
      if (state.end) svg.append(endLabel(state, level));
      else if (state.said !== undefined || state.reward) {
        guesses = guesses || state.said === undefined;
        svg.append(mark(state, about.actions[state.said ?? state.guess], level, state.said === undefined));
      }
      if (state.open && level < 8 && fewOpen) {
        open = true;
        svg.append(shape("text", { class: `open ${ink}`, x: state.x + 0.32, y: -state.y - 0.3 }, "?"));
      }
    }
    target.replaceChildren(svg);
    const best = states.reduce((a, b) => ((b.reward || 0) > (a.reward || 0) ? b : a));
    target.setAttribute("aria-label", best.reward ? `A map. Most reward: ${best.name}.` : "A map without rewards.");
    target.removeAttribute("aria-labelledby");
    legend.replaceChildren("Less", ramp(), explained(guesses), states.some((s) => s.end) ? DASHED : "", open ? " “?”: your answers leave it open." : "");
  }

  const endLabel = (state, level) => shape("text", { class: `end-label ${level > 4 ? "on-bright" : "on-dark"}`, x: state.x, y: -state.y + 0.34 }, state.end.slice(0, 9));

  function mark(state, action, level, guess) {
    const [ax, ay] = state.ahead, [right, up] = action.direction;
    const dx = right * ay + up * ax, dy = up * ay - right * ax;
    const ink = `${level > 4 ? "on-bright" : "on-dark"}${guess ? " guess" : ""}`;
    if (!dx && !dy) return shape("text", { class: `act ${ink}`, x: state.x, y: -state.y }, action.name.slice(0, 4));
    const x = state.x, y = -state.y, a = 0.26, b = 0.14;
    const tip = [x + a * dx, y - a * dy], tail = [x - a * dx, y + a * dy];
    const wing = (s) => `${tip[0] - b * dx + s * b * dy},${tip[1] + b * dy + s * b * dx}`;
    return shape("path", { class: `arrow ${ink}`, d: `M${tail} L${tip} M${wing(1)} L${tip} L${wing(-1)}` });
  }

  function drawList(target, legend, list) {
    const table = document.createElement("table");
    const body = table.createTBody();
    for (const row of list) {
      const line = body.insertRow();
      line.insertCell().textContent = row.name;
      line.insertCell().textContent = row.action;
      line.insertCell().textContent = row.reward.toFixed(2);
    }
    const head = table.createTHead().insertRow();
    for (const words of ["Situation", "You", "Reward"]) {
      const title = document.createElement("th");
      title.scope = "col";
      title.textContent = words;
      head.append(title);
    }
    target.setAttribute("role", "group");
    target.replaceChildren(table);
    legend.textContent = "The situations with the most reward.";
  }

  function note(words) {
    const paragraph = document.createElement("p");
    paragraph.className = "quiet";
    paragraph.textContent = words;
    return paragraph;
  }

  // Showing a moment of the interview

  function show(next) {
    const before = now;
    now = next;
    showTrouble();
    // Whoever has said something to the ending keeps it before them while that is taken in.
    const taking = next.phase === "thinking" && !$("done").hidden && next.last !== null && before.turn <= next.turn && ended;
    const done = next.phase === "done" || taking;
    const first = !done && !begun && !next.turn;
    $("taking").textContent = taking ? "Taking that in …" : "";
    $("rules").hidden = !first;
    $("asking").hidden = done || first;
    $("done").hidden = !done;
    $("brief").hidden = done || first;
    document.body.classList.toggle("before", first);
    if (taking) return;
    ended = done;
    if (first && !tryOut.started) tryOut.start();
    if (before === now || before.turn !== now.turn || before.phase !== now.phase) settle();
    for (const radio of $("modes").querySelectorAll("input")) radio.checked = radio.value === now.mode;
    $("modes").hidden = $("finish").hidden = done;
    if (done) showEnd(before);
    else showQuestion(before);
    Object.assign(document.body.dataset, { turn: next.turn, phase: next.phase, mode: next.mode });
  }

  // From now on the question is there; the page says when clicks on it count.
  function settle() {
    shownAt = performance.now();
    delete document.body.dataset.settled;
    clearTimeout(settling);
    settling = setTimeout(() => { document.body.dataset.settled = String(now.turn); }, SETTLING);
  }

  function showQuestion(before) {
    const question = now.question, kind = question ? question.kind : "none";
    const fresh = before.turn !== now.turn || before.phase !== now.phase || before === now;
    if (!question || fresh) replaying += 1;
    $("where").textContent = question ? question.where + ASKING[kind] : waiting();
    $("why").textContent = question ? question.why : whileWaiting();
    $("scene").parentElement.hidden = kind === "episode" || kind === "pair";
    $("actions").hidden = kind === "episode" || kind === "pair";
    $("episode").hidden = $("verdict").hidden = kind !== "episode";
    $("pair").hidden = $("choice").hidden = kind !== "pair";
    $("question").classList.toggle("wide-stage", kind === "pair");
    $("replay").hidden = kind !== "situation" && kind !== "none";
    document.querySelector(".narrative").hidden = kind !== "situation";
    $("narrative").replaceChildren(...(question && question.narrative || []).map(item));
    if (kind === "situation") drawNow();
    if (fresh) {
      showSame(question);
      if (kind === "episode") showEpisode(question);
      if (kind === "pair") showPair(question);
      if (question) announce($("where").textContent);
    }
    for (const button of [...$("actions").children, $("skip"), $("replay")]) button.disabled = !question;
    showLast();
    showSide();
  }

  // What was said last, and that it can be taken back.
  function showLast() {
    $("last").hidden = $("undo").disabled = !now.last;
    if (!now.last) return;
    $("last-words").textContent = `${now.last.short} ✓`;
    $("undo").title = $("final-undo").title = `Takes back ${now.last.full}`;
    $("undo-what").textContent = ` ${now.last.full}`;
    $("final-undo").textContent = `Undo ${now.last.full}`;
  }

  const ASKING = { situation: ". What would you do?", episode: ". Would you do the same?", pair: "?" };

  function waiting() {
    if (now.trouble) return "It cannot go on at present.";
    if (now.phase === "thinking") return now.mode === "compare" ? "Choosing what to compare …" : "Putting it all together …";
    return now.progress.answers ? "The agent is acting on your answers …" : "The agent is looking around …";
  }

  function whileWaiting() {
    if (now.trouble) return "";
    return `${plural(now.progress.episodes, "episode")} so far. ${now.phase === "thinking" ? "" : "It asks again when it meets something it does not know."}`;
  }

  function item(words) {
    const line = document.createElement("li");
    line.textContent = words;
    return line;
  }

  // The same everywhere like this: how other situations relate to this one, feature by feature.
  function showSame(question) {
    const features = question && question.features || [];
    const paintable = question && question.kind === "situation" && features.length > 0 ? now.belief.states : [];
    $("same").hidden = !features.length || now.mode === "play";
    $("same").open = false;
    $("painting").hidden = paintable.length < 3;
    if (paintable.length >= 3) drawPaint(paintable, question.state);
    $("same-words").textContent = "";
    $("features").replaceChildren(...features.map(({ name, value, ordered }) => {
      const label = document.createElement("label"), select = document.createElement("select");
      select.dataset.feature = name;
      select.append(new Option(`${value}, as here`, "same"), new Option("anything", ""));
      if (ordered) select.append(new Option(`${value} or less`, "at most"), new Option(`${value} or more`, "at least"));
      select.addEventListener("change", showScope);
      label.append(name, select);
      return label;
    }));
  }

  // The map to paint on: where the same would be done. What was said before stays as it is.
  function drawPaint(states, here) {
    painted.clear();
    const svg = mapPanel(states);
    for (const state of states) {
      const box = cell(state, `cell${state.state === here ? " here" : ""}${state.said !== undefined || state.end ? " taken" : ""}`);
      if (state.state !== here && state.said === undefined && !state.end) {
        box.dataset.state = state.state;
        box.addEventListener("pointerdown", (event) => { brush = !painted.has(state.state); event.target.releasePointerCapture(event.pointerId); paint(box, state.state); });
        box.addEventListener("pointerenter", (event) => { if (event.buttons) paint(box, state.state); });
      }
      svg.append(box);
    }
    $("paint").replaceChildren(svg);
  }

  function paint(box, state) {
    if (brush) painted.add(state);
    else painted.delete(state);
    box.classList.toggle("painted", brush);
    $("same-words").textContent = painted.size ? `Holds here and in ${plural(painted.size, "painted place")}.` : "";
  }

  function scope() {
    if (!$("same").open) return null;
    const chosen = [...$("features").querySelectorAll("select")];
    if (chosen.every((select) => select.value === "same")) return null;
    return Object.fromEntries(chosen.filter((select) => select.value).map((select) => [select.dataset.feature, select.value]));
  }

  async function showScope() {
    const relations = scope(), turn = now.turn;
    if (!relations) return void ($("same-words").textContent = "Holds here only.");
    const sent = await ask(`like?${new URLSearchParams(relations)}`);
    if (sent && turn === now.turn) $("same-words").textContent = sent.words;
  }

  // An episode that the agent walked on its guesses; whoever has not seen its end cannot say that it was right.
  async function showEpisode(question) {
    $("approve").disabled = true;
    $("approve-hint").hidden = false;
    $("guesses").replaceChildren(...question.steps.map((guess) => {
      const line = document.createElement("li"), button = document.createElement("button");
      button.type = "button";
      button.className = "guess";
      button.setAttribute("aria-expanded", "false");
      button.append(strong(guess.words), ` in ${guess.name}`);
      const instead = document.createElement("div");
      instead.className = "choices";
      instead.hidden = true;
      instead.setAttribute("role", "group");
      instead.setAttribute("aria-label", `What you would do in ${guess.name}`);
      instead.append("I would rather:", ...about.actions.map((action, number) => {
        const other = document.createElement("button");
        other.type = "button";
        other.textContent = action.name;
        other.disabled = number === guess.action;
        other.addEventListener("click", () => act("review", { step: guess.step, action: number }));
        return other;
      }));
      button.addEventListener("click", () => {
        instead.hidden = !instead.hidden;
        button.setAttribute("aria-expanded", String(!instead.hidden));
        shown.stopAt(guess.step);
      });
      line.append(button, instead);
      return line;
    }));
    shown.atEnd = () => { $("approve").disabled = false; $("approve-hint").hidden = true; };
    await shown.load(`replay?episode=${question.episode}`);
  }

  function strong(words) {
    const made = document.createElement("strong");
    made.textContent = words;
    return made;
  }

  async function showPair(question) {
    await left.load(`replay?episode=${question.pair[0]}`);
    await right.load(`replay?episode=${question.pair[1]}`);
  }

  function drawNow() {
    const question = now.question;
    $("caption").textContent = "";
    if (question.episode === null && $("scene").querySelector(`.spot[data-state="${question.state}"]`)) return;
    if (question.picture) drawPicture($("scene"), question.picture, question.where);
    else drawScene($("scene"), places(question.path));
    if (question.episode === null) drawWhere(question);
  }

  // A question about another place than where the agent is: on the environment's own picture.
  async function drawWhere({ state }) {
    const sent = await ask("panels"), found = sent && spot(sent.panels, state);
    const still = now.question && now.question.episode === null && now.question.state === state;
    if (!found || !still) return;
    found.dataset.state = state;
    $("scene").replaceChildren(found);
  }

  function showSide() {
    const { gauge, progress } = now;
    $("gauge").closest(".card").hidden = now.mode === "compare";
    const percent = Math.round(100 * gauge.covered);
    $("gauge").setAttribute("aria-valuenow", percent);
    const share = gauge.covered === null ? "–" : `${percent} %`;
    const familiar = gauge.covered === null ? "Too early to say how much of what it meets is familiar." : `${share} of what it meets is familiar.`;
    $("gauge").setAttribute("aria-valuetext", `${familiar} ${gauge.words}`);
    $("gauge").classList.toggle("reached", gauge.reached);
    $("fill").style.strokeDasharray = `${Math.max(percent, 0.01)} 200`;
    $("fill").style.opacity = percent ? 1 : 0;
    $("percent").textContent = share;
    $("promise").textContent = gauge.words;
    $("answers").textContent = progress.answers;
    $("expected").textContent = progress.words;
    $("progress-line").textContent = `${plural(progress.answers, "answer")}. ${progress.words}`;
    $("covers").textContent = progress.situations > progress.answers ? `They say what you would do in ${plural(progress.situations, "situation")}.` : "";
    const skipped = progress.skipped ? `, and ${plural(progress.skipped, "time")} you did not know` : "";
    $("alone").textContent = `${plural(progress.episodes, "episode")}, ${plural(progress.steps, "step")} walked${skipped}.`;
    $("answer-errors").textContent = now.mode === "ask" ? now.answer_errors : "";
    drawBelief($("belief"), $("legend"));
  }

  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

  function announce(words) {
    $("announce").textContent = words;
  }

  // The last screen

  function showEnd(before) {
    const { wish, lines, does, open, certified, explained } = now.outcome;
    $("wish-title").textContent = wish.kind === "stated" ? "What you want" : "What you seem to want";
    $("wish").textContent = wish.headline;
    $("wish").classList.toggle("long", wish.headline.length > 90);
    $("wish-why").textContent = wish.why;
    $("more-row").hidden = !wish.more;
    $("more").textContent = wish.more === 1 ? "Ask me one question more" : `Ask me ${wish.more} questions more`;
    $("does").replaceChildren(...[...new Set(does.map(({ action }) => action))].map((action) => {
      const group = document.createElement("div"), term = document.createElement("dt");
      term.textContent = action;
      group.append(term, ...does.filter((one) => one.action === action).map(({ where, count }) => {
        const told = document.createElement("dd");
        told.append(where, note(count));
        return told;
      }));
      return group;
    }));
    $("does").parentElement.hidden = !does.length;
    $("lines").replaceChildren(...lines.map(paragraph));
    $("final-promise").textContent = now.gauge.words;
    $("final-promise").className = certified ? "promise" : "";
    $("final-answer-errors").textContent = now.answer_errors;
    $("explained-words").textContent = explained.words;
    $("not-explained").replaceChildren(...explained.rows.map(({ action, count, where }) => {
      const line = item(`${action}, ${plural(count, "answer")} that it does not explain: ${where}`);
      line.className = "not";
      return line;
    }));
    $("open").replaceChildren(...open.map(paragraph));
    showBack(wish);
    showNext();
    showContradictions();
    showLast();
    $("final-undo").hidden = !now.last;
    if (before.tag !== now.tag || !atlas.panels) atlas.load();
    $("go-on").hidden = !now.finished;
    if (before.phase !== "done" || !film.frames.length) {
      announce(`${before.phase === "thinking" && before.turn && film.frames.length ? "" : "That is all. Thank you! "}${wish.headline}`);
      if (film.frames.length) return;
      $("done-title").focus({ preventScroll: true });
      scrollTo(0, 0);
      film.load(`film?number=${film.number}`);
    }
  }

  // The ending asks back: what the person says to it is evidence.
  function showBack(wish) {
    const nothing = !now.progress.answers, open = wish.kind === "open";
    $("back").hidden = nothing;
    $("said-verdict").hidden = !wish.verdict;
    $("said-verdict").textContent = wish.verdict || "";
    askBack(wish, !wish.answered);
    $("choose-hint").textContent = `${open ? "" : "What is it then? "}Choose, or press the place on the map.`;
    $("rivals").replaceChildren(...wish.rivals.map((rival) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = rival.words;
      button.addEventListener("click", () => choose(rival.what, rival.where));
      return button;
    }));
    const places = now.outcome.places.filter(({ reward }) => reward !== undefined);
    $("place-row").hidden = places.length > 80;
    const group = (label, what) => {
      const made = document.createElement("optgroup");
      made.label = label;
      made.append(...places.map(({ state, name }) => new Option(`${label} ${name}`, `${what} ${state}`)));
      return made;
    };
    $("place").replaceChildren(new Option("…", ""), group("Get to", "wants"), group("Keep away from", "avoids"));
    $("choose-place").disabled = true;
    $("besides-row").hidden = !wish.chosen;
    $("besides").checked = $("besides").checked && wish.chosen;
  }

  // Who has answered is not asked again, unless they want to say something else.
  function askBack(wish, asks) {
    const open = wish.kind === "open";
    $("back-title").textContent = !asks ? "Thank you, noted" : open ? "What did you want?" : "Is that what you wanted?";
    $("verdicts").hidden = open || !asks;
    saying = open ? "nearly" : "";
    $("choose").hidden = !open || !asks;
    $("change-row").hidden = asks;
  }

  function changeVerdict() {
    const { wish } = now.outcome;
    askBack(wish, true);
    $("choose").hidden = false;
    $(wish.kind === "open" ? "choose" : "verdicts").querySelector("button, select").focus();
  }

  const choose = (what, where) => act("verdict", { verdict: saying || "nearly", what, where, besides: $("besides").checked });

  function say(verdict) {
    if (verdict === "yes") return void act("verdict", { verdict });
    saying = verdict;
    $("choose").hidden = false;
    $("choose").querySelector("button, select").focus();
  }

  function paragraph(words) {
    const line = document.createElement("p");
    line.textContent = words;
    return line;
  }

  function showNext() {
    $("next").replaceChildren(...now.outcome.next.map(({ title, code }) => {
      const group = document.createElement("div");
      const name = document.createElement("dt"), how = document.createElement("dd"), block = document.createElement("pre");
      name.textContent = title;
      block.textContent = code;
      how.append(block);
      group.append(name, how);
      return group;
    }));
  }

  // The map panels; at first the one with the most reward is shown.
  const atlas = {
    panels: null,
    async load() {
      const sent = await ask("maps");
      if (!sent || now.phase !== "done") return;
      this.panels = sent.panels;
      const worth = (panel) => Math.max(...panel.places.map(([state]) => now.outcome.places[state].reward || 0)) + panel.places.length / 1e6;
      const best = this.panels.reduce((a, b, n) => (worth(b) > worth(this.panels[a]) ? n : a), 0);
      $("panels").hidden = this.panels.length < 2;
      $("panel").replaceChildren(...this.panels.map((panel, number) => new Option(panel.title || `Map ${number + 1}`, number)));
      $("panel").value = best;
      this.show();
    },
    show() {
      const panel = this.panels[Number($("panel").value)];
      if (panel && now.progress.answers) drawPanel($("final-belief"), $("final-legend"), panel);
      else drawBelief($("final-belief"), $("final-legend"));
    },
  };

  function showContradictions() {
    $("contradictions").hidden = !now.contradictions.length;
    $("contradiction-list").replaceChildren(...now.contradictions.map((found) => {
      const item = document.createElement("li");
      const said = found.votes.map((vote) => about.actions[vote].name);
      item.append(`${found.name[0].toUpperCase()}${found.name.slice(1)}: you said ${said.join(", then ")}.`);
      const choices = document.createElement("div");
      choices.className = "choices";
      choices.setAttribute("role", "group");
      choices.setAttribute("aria-label", `What you meant in ${found.name}`);
      about.actions.forEach((action, number) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = action.name;
        button.setAttribute("aria-pressed", String(number === found.standing));
        button.addEventListener("click", () => act("correct", { state: found.state, action: number }, true));
        choices.append(button);
      });
      item.append(choices);
      return item;
    }));
  }

  // A film with its picture, words, button and slider, all found in one element.
  class Player {
    constructor(root) {
      const find = (name) => root.querySelector(`.${name}`);
      [this.scene, this.words, this.button, this.seek] = ["scene", "film-words", "play", "seek"].map(find);
      Object.assign(this, { frames: [], at: 0, playing: false, number: 0, loading: 0 });
      this.button.addEventListener("click", () => {
        if (!this.frames.length) return;
        if (!this.playing && this.at + 1 >= this.frames.length) this.go(0);
        this.playing = !this.playing;
        this.tick();
      });
      this.seek.addEventListener("input", () => this.stop(Number(this.seek.value)));
    }
    async load(path) {
      const mine = this.loading += 1;
      this.frames = [];
      // Nobody is to judge by the film of the question before.
      clearTimeout(this.timer);
      this.scene.replaceChildren(note("The film is being made …"));
      this.words.textContent = "";
      this.seek.max = this.seek.value = 0;
      const sent = await ask(path);
      if (mine !== this.loading) return;
      if (!sent || !sent.frames.length) {
        this.scene.replaceChildren(note("There is no film yet."));
        this.timer = setTimeout(() => { if (mine === this.loading) this.load(path); }, AGAIN);
        return;
      }
      this.frames = sent.frames;
      this.seek.max = this.frames.length - 1;
      if (this.frames.at(-1).ending) $("ending").textContent = this.frames.at(-1).ending;
      this.go(0);
      this.playing = !calm.matches;
      this.tick();
    }
    stop(at) {
      this.playing = false;
      this.tick();
      this.go(at);
    }
    stopAt(step) {
      const at = this.frames.findIndex((frame) => frame.step >= step);
      if (at >= 0) this.stop(at);
    }
    go(at) {
      const frame = this.frames[at];
      if (!frame) return;
      this.at = at;
      this.seek.value = at;
      this.seek.setAttribute("aria-valuetext", `Step ${frame.step}: ${frame.words}`);
      this.words.textContent = `Step ${frame.step}. ${frame.words[0].toUpperCase()}${frame.words.slice(1)}`;
      if (at + 1 === this.frames.length && this.atEnd) this.atEnd();
      if (frame.picture) drawPicture(this.scene, frame.picture, frame.words);
      else if (frame.x !== null) drawScene(this.scene, this.frames.slice(0, at + 1));
    }
    tick() {
      clearTimeout(this.timer);
      this.button.textContent = this.playing ? "Pause" : "Play";
      if (!this.playing) return;
      this.timer = setTimeout(() => {
        if (this.at + 1 >= this.frames.length) this.playing = false;
        else this.go(this.at + 1);
        this.tick();
      }, 420);
    }
  }

  const film = new Player($("film")), shown = new Player($("episode"));
  const [left, right] = [...$("pair").children].map((side) => new Player(side));

  // Trying things out before the first question: every press plays all of them again, by the same chance.
  const tryOut = {
    started: false, number: 0, actions: [],
    start() {
      this.started = true;
      $("try-actions").replaceChildren(...about.actions.map((action, number) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = action.name;
        button.addEventListener("click", () => { if (this.actions.length < 30) this.actions.push(number); this.show(); });
        return button;
      }));
      $("try-again").addEventListener("click", () => { this.actions = []; this.number += 1; this.show(); });
      this.show();
    },
    async show() {
      const asked = this.actions.length;
      const sent = await ask(`try?number=${this.number}&actions=${this.actions.join(".")}`);
      if (!sent || asked !== this.actions.length || !sent.frames.length) return;
      const last = sent.frames.at(-1);
      $("try-words").textContent = asked ? `You pressed ${last.words.replace(": ", ", and now: ")}.` : `You start in ${last.words}.`;
      if (last.picture) drawPicture($("try-scene"), last.picture, last.words);
      else if (last.x !== null) drawScene($("try-scene"), sent.frames);
    },
  };

  function begin() {
    begun = true;
    show(now);
    $("question").focus({ preventScroll: true });
    scrollTo(0, 0);
  }

  function rules() {
    $("rules").hidden = false;
    if (!tryOut.started) tryOut.start();
    $("asking").hidden = $("done").hidden = true;
    $("rules-title").focus({ preventScroll: true });
    scrollTo(0, 0);
  }

  // A drag over the picture moves the way it points.
  function swiped(event) {
    const [x, y] = dragged || [event.clientX, event.clientY], dx = event.clientX - x, dy = y - event.clientY;
    dragged = null;
    if (Math.hypot(dx, dy) < 24 || now.mode !== "play" || !now.question || now.question.kind !== "situation") return;
    const aims = about.actions.map(({ direction: [right, up] }) => (right * dx + up * dy) / Math.hypot(dx, dy));
    const best = aims.indexOf(Math.max(...aims));
    if (aims[best] > 0.8) act("answer", { action: best }, true);
  }

  // What the person decides

  async function listAnswers() {
    const sent = await ask("answers");
    if (!sent) return;
    const pictures = sent.answers.length ? (await ask("panels"))?.panels || [] : [];
    $("answers-none").hidden = sent.answers.length > 0;
    $("answers-none").textContent = now.progress.answers ? "You compared episodes; the last comparison can be taken back with Undo." : "You have not answered anything yet.";
    $("answers-table").hidden = $("answers-order").hidden = !sent.answers.length;
    $("answers-table").tBodies[0].replaceChildren(...sent.answers.reverse().map((row) => {
      const line = document.createElement("tr"), name = document.createElement("th"), choice = document.createElement("td");
      name.scope = "row";
      const words = document.createElement("span"), told = document.createElement("div");
      words.textContent = row.name;
      if (row.how) words.append(note(row.how));
      told.className = "told";
      told.append(spot(pictures, row.state), words);
      name.append(told);
      const select = document.createElement("select");
      select.setAttribute("aria-label", `What you would do in ${row.name}`);
      select.append(...about.actions.map((action, number) => new Option(action.name, number, false, number === row.action)));
      // By keyboard a list runs through all values; only where it rests is meant.
      let resting = 0;
      select.addEventListener("change", () => {
        clearTimeout(resting);
        resting = setTimeout(() => putRight(row.state, select), RESTING);
      });
      choice.append(select);
      line.append(name, choice);
      return line;
    }));
    if (!$("answers-dialog").open) $("answers-dialog").showModal();
  }

  // The list keeps what holds, also if the change could not be made.
  async function putRight(state, select) {
    await act("correct", { state, action: Number(select.value) }, true);
    const sent = await ask("answers");
    const row = sent && sent.answers.find((one) => one.state === state);
    if (!row) return;
    select.value = row.action;
    const how = select.closest("tr").querySelector(".quiet");
    if (how) how.textContent = row.how;
    else if (row.how) select.closest("tr").querySelector(".told span").append(note(row.how));
  }

  // Whoever chose with the pointer answers by keys next: the arrows are to be theirs, not the choice's.
  function changeMode(radio) {
    act("mode", { mode: radio.value }, true);
    if (!radio.matches(":focus-visible")) setTimeout(() => $("question").focus({ preventScroll: true }));
  }

  function askAim() {
    $("epsilon").value = +(100 * now.settings.epsilon).toPrecision(6);
    $("delta").value = +(100 * now.settings.delta).toPrecision(6);
    $("horizon").value = now.settings.horizon;
    $("aim-wrong").hidden = true;
    $("aim-dialog").showModal();
  }

  async function setAim(event) {
    event.preventDefault();
    const inputs = ["epsilon", "delta", "horizon"].map($), bad = inputs.find((input) => !input.checkValidity());
    for (const input of inputs) input.setAttribute("aria-invalid", String(input === bad));
    if (!bad) {
      const [epsilon, delta, horizon] = inputs.map((input) => Number(input.value));
      await act("adjust", { epsilon: epsilon / 100, delta: delta / 100, horizon }, true);
    }
    const wrong = bad ? `${bad.labels[0].textContent}: ${bad === $("horizon") ? "a whole number" : "a number"} from ${bad.min} to ${bad.max}.` : refused;
    $("aim-wrong").textContent = wrong;
    $("aim-wrong").hidden = !wrong;
    if (bad) bad.focus();
    if (refused) problems.delete("change");
    else if (!bad) $("aim-dialog").close();
    showTrouble();
  }

  // Replaying the episode so far, in the place of the situation

  async function replay() {
    if (!now.question || now.question.episode === null) return;
    const mine = replaying += 1;
    const sent = await ask(`replay?episode=${now.question.episode}`);
    if (!sent) return;
    for (const [number, frame] of sent.frames.entries()) {
      if (mine !== replaying) return;
      if (frame.picture) drawPicture($("scene"), frame.picture, frame.words);
      else drawScene($("scene"), sent.frames.slice(0, number + 1));
      $("caption").textContent = `Replay, ${number + 1} of ${sent.frames.length}: ${frame.words}`;
      await new Promise((resolve) => setTimeout(resolve, calm.matches ? 900 : 420));
    }
    if (mine === replaying && now.question) drawNow();
  }

  // Buttons and keys

  function build() {
    const arrows = about.actions.filter((action) => action.key in ARROWS).length;
    $("actions").classList.toggle("cross", arrows === 4);
    about.actions.forEach((action, number) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = arrows === 4 ? SIDES[action.key] || "rest" : "";
      button.append(action.name);
      if (action.key) {
        const key = document.createElement("kbd");
        key.textContent = ARROWS[action.key] || action.key.toUpperCase();
        key.setAttribute("aria-hidden", "true");
        button.append(key);
        button.setAttribute("aria-keyshortcuts", action.key.length === 1 ? action.key.toUpperCase() : action.key);
      }
      button.addEventListener("click", () => {
        const like = scope(), also = $("same").open && painted.size ? [...painted] : null;
        act("answer", also ? { action: number, also } : like ? { action: number, like } : { action: number }, playedByKey);
      });
      $("actions").append(button);
    });
    $("skip").addEventListener("click", () => act("skip", {}));
    $("undo").addEventListener("click", () => act("undo", {}));
    $("final-undo").addEventListener("click", () => act("undo", {}));
    $("replay").addEventListener("click", replay);
    $("begin").addEventListener("click", begin);
    $("show-rules").addEventListener("click", rules);
    $("change-verdict").addEventListener("click", changeVerdict);
    for (const button of $("verdicts").children) button.addEventListener("click", () => say(button.dataset.verdict));
    $("something-else").addEventListener("click", () => act("verdict", { verdict: saying || "no" }));
    // By keyboard a list runs through all values: nothing is chosen before it is said so.
    $("place").addEventListener("change", () => { $("choose-place").disabled = !$("place").value; });
    $("choose-place").addEventListener("click", () => {
      const [what, state] = $("place").value.split(" ");
      choose(what, Number(state));
    });
    $("scene").addEventListener("pointerdown", (event) => { dragged = [event.clientX, event.clientY]; });
    $("scene").addEventListener("pointerup", swiped);
    for (const [number, side] of [...$("pair").children].entries()) side.querySelector(".scene").addEventListener("click", () => act("prefer", { better: number }));
    $("approve").addEventListener("click", () => act("review", {}));
    $("left-better").addEventListener("click", () => act("prefer", { better: 0 }));
    $("right-better").addEventListener("click", () => act("prefer", { better: 1 }));
    $("both-alike").addEventListener("click", () => act("prefer", { better: null }));
    $("same").addEventListener("toggle", showScope);
    for (const radio of $("modes").querySelectorAll("input")) radio.addEventListener("change", () => changeMode(radio));
    $("finish").addEventListener("click", () => act("finish", {}));
    $("go-on").addEventListener("click", () => act("go_on", {}));
    $("more").addEventListener("click", () => act("more", {}));
    $("list-answers").addEventListener("click", listAnswers);
    $("set-aim").addEventListener("click", askAim);
    $("aim").addEventListener("submit", setAim);
    $("again").addEventListener("click", () => {
      // Escape leaves the value of the time before.
      $("again-dialog").returnValue = "";
      $("again-dialog").showModal();
    });
    $("again-dialog").addEventListener("close", () => { if ($("again-dialog").returnValue === "again") act("start_again", {}, true); });
    $("panel").addEventListener("change", () => atlas.show());
    $("another").addEventListener("click", () => { film.number += 1; film.load(`film?number=${film.number}`); });
    addEventListener("keydown", onKey);
  }

  function onKey(event) {
    if (event.target.matches("input[type=radio]") && event.key.startsWith("Arrow")) return;
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || !$("shortcuts").checked) return;
    if (now.phase === "done" || !$("rules").hidden || document.querySelector("dialog[open]")) return;
    if (event.target.matches("input:not([type=checkbox]):not([type=radio]), select, textarea")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const number = about.actions.findIndex((action) => action.key === key);
    const kind = now.question ? now.question.kind : "none";
    const own = { situation: {}, none: {}, episode: { y: $("approve") }, pair: { ArrowLeft: $("left-better"), ArrowRight: $("right-better"), "=": $("both-alike") } }[kind];
    const usual = { "?": $("skip"), u: $("undo"), r: $("replay") };
    const button = own[key] || (kind === "situation" && number >= 0 ? $("actions").children[number] : usual[key]);
    if (!button) return;
    event.preventDefault();
    if (button.disabled) return;
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), 120);
    // Whoever plays by keys knows where they go: no press is meant for the step before.
    playedByKey = now.mode === "play";
    button.click();
    playedByKey = false;
  }

  build();
  show(now);
  poll();
})();
