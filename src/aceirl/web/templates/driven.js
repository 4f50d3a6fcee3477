(() => {
  const $ = (id) => document.getElementById(id);
  const about = JSON.parse($("about").textContent);
  let now = JSON.parse($("first").textContent);
  let busy = false, ruled = false, number = 0, shownAt = -Infinity, settling = 0;
  let held = null, tapped = null, driving = false, wake = () => {};
  // A click that comes this soon after a new question was meant for the one before; a key is held, not tapped, after this.
  const SETTLING = 400, HOLDING = 220;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const ARROWS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

  // Talking to the server

  function showTrouble(words) {
    $("trouble").hidden = !words;
    if (words !== $("trouble").textContent) $("trouble").textContent = words;
  }

  function heard(sent, own) {
    if (sent.lost) showTrouble(own ? "The server does not answer: your last step did not arrive. Do it once more when it does." : "The server does not answer. Start the same command again; nothing is lost, and this page goes on by itself.");
    else if (sent.error) showTrouble(sentence(sent.error));
    else if (own || $("trouble").textContent.startsWith("The server")) showTrouble("");
    if (sent.content && sent.content.turn !== undefined) show(sent.content);
    return sent.content !== undefined;
  }

  async function act(path, body = {}) {
    if (busy) return false;
    busy = true;
    const slow = setTimeout(() => { $("why").textContent = "Learning from your answers …"; }, 350);
    const sent = await ask(path, { turn: now.turn, ...body });
    clearTimeout(slow);
    busy = false;
    const arrived = heard(sent, true);
    if (!arrived || sent.content.turn === now.turn) [$("where").textContent, $("why").textContent] = words();
    return arrived;
  }

  async function poll() {
    if (!busy && !driving) {
      const sent = await ask(`view?have=${now.turn}`);
      if (!busy) heard(sent, false);
    }
    setTimeout(poll, 1200);
  }

  // Films

  class Player {
    constructor(root) {
      const find = (name) => root.querySelector(`.${name}`);
      [this.scene, this.words, this.controls, this.button, this.seek] = ["scene", "film-words", "controls", "play", "seek"].map(find);
      Object.assign(this, { frames: [], at: 0, playing: false, loading: 0 });
      this.button.addEventListener("click", () => {
        if (!this.playing && this.at + 1 >= this.frames.length) this.go(0);
        this.play(!this.playing);
      });
      this.seek.addEventListener("input", () => { this.play(false); this.go(Number(this.seek.value)); });
    }
    clear() {
      this.loading += 1;
      this.frames = [];
      this.seek.max = this.seek.value = 0;
      this.play(false);
      this.controls.hidden = true;
      this.words.textContent = "";
    }
    async load(film, start) {
      this.clear();
      const mine = this.loading, turn = now.turn;
      let sent = await ask(`film?number=${film}`);
      while (sent.error && !sent.lost && mine === this.loading) { await pause(0.5); sent = await ask(`film?number=${film}`); }
      if (mine !== this.loading || !sent.content || sent.content.turn !== turn || !sent.content.frames.length) return;
      this.frames = sent.content.frames;
      this.seek.max = this.frames.length - 1;
      this.controls.hidden = this.frames.length < 2;
      this.go(start ? 0 : this.frames.length - 1);
      this.play(start && !calm.matches);
    }
    go(at) {
      const frame = this.frames[at];
      if (!frame) return;
      this.at = this.seek.value = at;
      const words = `Step ${frame.step}${frame.words ? `: ${frame.words}` : ""}`;
      this.words.textContent = words;
      this.seek.setAttribute("aria-valuetext", words);
      draw(this.scene, frame.picture, words);
      if (frame.ending) $("ending").textContent = frame.ending;
      if (this.moved) this.moved();
    }
    play(playing) {
      this.playing = playing && this.frames.length > 1;
      clearTimeout(this.timer);
      this.button.textContent = this.playing ? "Pause" : "Play";
      if (this.playing) this.timer = setTimeout(() => { this.go(this.at + 1); this.play(this.at + 1 < this.frames.length); }, now.phase === "asked" ? 150 : 80);
    }
  }

  const stage = new Player($("stage")), film = new Player($("film"));
  stage.moved = () => { $("take").disabled = stage.at + 1 >= stage.frames.length; };

  function draw(target, url, words) {
    const image = target.querySelector("img") || element("img", { draggable: "false" });
    image.src = url;
    image.alt = words;
    if (!image.isConnected) target.replaceChildren(image);
  }

  // Showing a moment

  function show(next) {
    const before = now;
    now = next;
    if (before !== next && before.turn === next.turn) return;
    const moved = before === next || before.phase !== next.phase || before.way !== next.way;
    if (moved || next.phase === "asked") settle();
    if (moved) ruled = false;
    showMoment();
    if (next.phase === "watching") stage.load(0, true);
    else if (next.phase === "asked" && next.step) stage.load(0, !calm.matches);
    else stage.clear();
    if (next.picture) {
      stage.words.textContent = `Step ${next.step.toLocaleString("en")} of at most ${about.horizon.toLocaleString("en")}`;
      draw($("scene"), next.picture, stage.words.textContent);
    }
    if (next.phase === "done" && moved) showEnd();
    if (moved) $("announce").textContent = `${$("where").textContent}. ${$("why").textContent}`;
  }

  function showMoment() {
    const { phase, way } = now, choosing = phase === "choose" || ruled;
    Object.assign(document.body.dataset, { phase, turn: now.turn });
    document.body.classList.toggle("before", phase === "choose" && !now.episodes);
    $("rules").hidden = !choosing;
    $("asking").hidden = choosing || phase === "done";
    $("done").hidden = choosing || phase !== "done";
    $("brief").hidden = choosing;
    $("modes").hidden = $("finish").hidden = phase === "done";
    $("begin").textContent = phase === "choose" ? "Drive" : "Back";
    for (const radio of $("modes").querySelectorAll("input")) radio.checked = radio.value === way && phase !== "choose";
    [$("where").textContent, $("why").textContent] = words();
    const acting = phase === "driving" || phase === "asked";
    for (const button of $("actions").children) button.disabled = !acting && phase !== "watching";
    $("pace-row").hidden = phase !== "driving";
    $("next-episode").hidden = phase !== "over" && phase !== "watching";
    $("next-episode").classList.toggle("primary", phase === "over");
    $("take").hidden = phase !== "watching";
    $("hand-back").hidden = !(phase === "driving" && way === "watch");
    $("replay").hidden = phase !== "driving" || !now.step;
    $("last").hidden = !now.last;
    $("last-words").textContent = now.last ? `You said ${now.last} ✓` : "";
    $("answers").textContent = now.answers.toLocaleString("en");
    $("expected").textContent = now.missing ? `${now.missing} more until it can act` : "";
    $("progress-line").textContent = `${plural(now.answers, "answer")}. ${$("expected").textContent}`;
    $("tests").textContent = `${now.tests.toLocaleString("en")} of ${plural(now.tests_wanted, "test drive")} for a promise.`;
    showNumbers();
  }

  function words() {
    const { phase, way, step } = now, steps = plural(step, "step");
    if (phase === "over") return [now.over === "ended" ? `The episode ended after ${steps}` : `The time is up, after ${steps}`, way === "test" ? "Go on with the next test drive." : "Go on with the next episode, or let it try."];
    if (phase === "watching") return ["It drives", "This is what it learned. Press an action where it goes wrong: from there on you drive."];
    if (phase === "asked") return ["What would you do?", now.quiet ? "It was sure everywhere in twenty episodes. Answer, watch it, or finish." : now.missing ? "It knows nothing yet, so it asks at every step." : "It is not sure here."];
    if (way === "test") return [`Test drive ${now.tests + 1}${now.tests < now.tests_wanted ? ` of ${now.tests_wanted}` : ""}`, "Nothing is learned from this, and there is no undo. Drive as you always do."];
    if (way === "watch") return ["You took over", "Every step is an answer. Let it go on when you like."];
    return ["You drive", "Hold a key or a button and time goes on; tap it for one step."];
  }

  function showNumbers() {
    const bar = (share) => {
      const drawn = (name, attributes) => {
        const made = document.createElementNS("http://www.w3.org/2000/svg", name);
        for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
        return made;
      };
      const svg = drawn("svg", { viewBox: "-1 0 2 1", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" });
      svg.append(drawn("rect", { class: "track", x: -1, y: 0, width: 2, height: 1 }), drawn("rect", { class: "value", x: Math.min(0, share), y: 0, width: Math.abs(share), height: 1 }), drawn("rect", { class: "zero", x: -0.004, y: 0, width: 0.008, height: 1 }));
      return svg;
    };
    $("numbers").closest(".card").hidden = !now.numbers.length || now.phase === "watching";
    $("numbers").replaceChildren(...now.numbers.map(({ name, value, share }) => element("div", {}, element("dt", {}, name), element("dd", {}, value, bar(share)))));
    for (const row of $("numbers").children) row.append(row.querySelector("svg"));
  }

  // From now on the moment is there; the page says when presses count.
  function settle() {
    shownAt = performance.now();
    delete document.body.dataset.settled;
    clearTimeout(settling);
    settling = setTimeout(() => { document.body.dataset.settled = String(now.turn); }, SETTLING);
  }

  function showEnd() {
    const { rules, holds, counts, promise, promised, wish, next } = now.outcome;
    $("counts").textContent = counts;
    $("does-rules").replaceChildren(...rules.map((rule) => element("li", {}, capital(rule))));
    $("holds").textContent = `They hold at ${holds}.`;
    $("final-promise").textContent = promise;
    $("final-promise").className = promised ? "promise" : "";
    $("wish-words").textContent = wish;
    $("next").replaceChildren(...next.map(({ title, code }) => element("div", {}, element("dt", {}, title), element("dd", {}, element("pre", {}, code)))));
    film.load(number = 0, true);
    $("done-title").focus({ preventScroll: true });
    scrollTo(0, 0);
  }

  // Driving: a tap is one step; a key or a button that is held goes on at the pace.

  async function hold(action) {
    if (now.phase === "watching") return takeOver(action);
    if (now.phase === "asked") {
      if (performance.now() - shownAt >= SETTLING) await act("press", { action });
      return;
    }
    if (now.phase !== "driving" || (!now.step && performance.now() - shownAt < SETTLING)) return;
    held = tapped = { action, first: true };
    wake();
    if (driving) return;
    driving = true;
    while ((tapped || held) && now.phase === "driving") {
      const one = tapped || held, begun = performance.now();
      tapped = null;
      if (!await act("press", { action: one.action })) break;
      const due = Math.max(1000 / Number($("pace").value), one.first ? HOLDING : 0) - (performance.now() - begun);
      one.first = false;
      if (held && !tapped && due > 0) await new Promise((resolve) => { wake = resolve; setTimeout(resolve, due); });
    }
    driving = false;
    held = tapped = null;
  }

  // The first step of a press is taken even if it was short.
  function release() {
    held = null;
    wake();
  }

  async function takeOver(action) {
    const frame = stage.frames[stage.at];
    if (!frame || stage.at + 1 >= stage.frames.length || performance.now() - shownAt < SETTLING) return;
    stage.play(false);
    if (await act("take", { step: frame.step }) && action !== undefined) await act("press", { action });
  }

  async function begin(way) {
    await act("begin", { way });
    showMoment();
    $("question").focus({ preventScroll: true });
    if (matchMedia("(max-width: 44rem)").matches) scrollTo(0, 0);
  }

  // Buttons and keys

  function build() {
    $("actions").classList.toggle("three", about.actions.length === 3 || about.actions.length === 9);
    for (const [action, { name, key }] of about.actions.entries()) {
      const sign = ARROWS[key] || key.toUpperCase();
      const button = element("button", { type: "button" }, name, ...(key ? [element("kbd", { "aria-hidden": "true" }, sign)] : []));
      if (key) button.setAttribute("aria-keyshortcuts", key);
      button.addEventListener("pointerdown", (event) => { if (event.button === 0) { event.target.setPointerCapture?.(event.pointerId); hold(action); } });
      for (const kind of ["pointerup", "pointercancel", "lostpointercapture"]) button.addEventListener(kind, release);
      button.addEventListener("contextmenu", (event) => event.preventDefault());
      button.addEventListener("click", (event) => { if (event.detail === 0) { hold(action); release(); } });
      $("actions").append(button);
      $("keys").append(element("li", {}, ...(key ? [element("kbd", {}, sign)] : []), name));
    }
    for (const radio of $("modes").querySelectorAll("input")) {
      radio.addEventListener("change", () => begin(radio.value));
    }
    const clicks = {
      begin: () => { if (now.phase === "choose") return begin("drive"); ruled = false; showMoment(); },
      "show-rules": () => { ruled = true; showMoment(); $("rules-title").focus({ preventScroll: true }); },
      undo: () => act("undo"), "next-episode": () => begin(now.way), take: () => takeOver(), "hand-back": () => act("hand_back"),
      replay: () => stage.load(0, true), finish: () => act("finish"), "go-on": () => act("go_on"), another: () => film.load(number += 1, true),
    };
    for (const [id, click] of Object.entries(clicks)) $(id).addEventListener("click", click);
    const pace = () => { $("pace-words").textContent = `${plural(Number($("pace").value), "step")}/s`; };
    $("pace").addEventListener("input", pace);
    pace();
    addEventListener("keydown", onKey);
    addEventListener("keyup", (event) => { if (held && held.action === numberOf(event)) release(); });
    addEventListener("blur", release);
    document.addEventListener("visibilitychange", release);
  }

  const plain = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);
  const numberOf = (event) => about.actions.findIndex(({ key }) => key && key === plain(event));

  function onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || !$("shortcuts").checked || !$("rules").hidden || now.phase === "done") return;
    if (event.target.matches("input[type=range], input[type=radio]") && event.key.startsWith("Arrow")) return;
    const action = numberOf(event);
    const button = { u: $("undo"), n: $("next-episode"), t: $("take"), g: $("hand-back"), r: $("replay") }[plain(event)];
    if (action < 0 && (!button || button.hidden || button.closest("[hidden]"))) return;
    event.preventDefault();
    if (event.repeat) return;
    if (action < 0) return void (button.disabled || button.click());
    hold(action);
  }

  build();
  show(now);
  poll();
})();
