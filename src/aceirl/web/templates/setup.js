(() => {
  const $ = (id) => document.getElementById(id);
  const form = JSON.parse($("first").textContent);
  const known = new Map(form.environments.map((found) => [found.name, found]));
  const radios = [...document.querySelectorAll("input[name=environment][type=radio]")];
  const fields = ["horizon", "epsilon", "delta", "seed", "parameters", "name", "folder"];
  let asked = 0;

  const short = (value) => (typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(3)) : value);
  const chosen = () => {
    const radio = radios.find((one) => one.checked);
    return radio === $("other") ? $("environment").value.trim() : radio ? radio.value : "";
  };

  // What the chosen environment says of the length of its episodes stands next to the field at once.
  function showChoice() {
    const found = known.get(chosen());
    const field = $("horizon"), needed = found && !found.steps;
    field.disabled = Boolean(found && found.own);
    field.required = Boolean(needed);
    field.placeholder = needed ? "such as 50" : found ? String(found.steps) : "";
    wrong(field, needed && !field.value.trim() ? `Needed: ${found.name} does not say how long an episode is.` : "");
    $("horizon-hint").textContent = !found ? "By default the environment’s own limit."
      : found.own ? `It is ${found.steps}; to change it, write horizon=${found.steps} below.`
      : needed ? "After this many steps an episode is over."
      : `Its own limit is ${found.steps}. Another number takes its place.`;
    const has = Object.entries(found ? found.parameters : {}).map(([name, value]) => `${name}=${JSON.stringify(short(value))}`);
    $("parameters-hint").textContent = `One a line, as name=value. ${has.length ? `It has ${has.join(", ")}.` : "May be left empty."}`;
    const usual = chosen() ? `interview-${chosen().replaceAll(/[/:]/g, "-")}` : "interview-…";
    $("folder").placeholder = form.folder ? form.folder.split("/").pop() : usual;
    const where = form.folder || `runs/${usual}`;
    $("folder-hint").textContent = `Left empty: ${where}. If it holds this interview, it goes on.`;
  }

  async function look() {
    const name = chosen(), mine = asked += 1;
    wrong($("environment"), "");
    showChoice();
    if (!name || known.has(name)) return;
    const { content, error } = await ask(`environment?name=${encodeURIComponent(name)}`);
    if (mine !== asked) return;
    if (content) {
      known.set(name, content);
      $("environment-hint").textContent = content.summary || "It is installed.";
      showChoice();
    } else wrong($("environment"), error);
  }

  function sent() {
    const values = Object.fromEntries(fields.map((name) => [name, $(name).disabled ? "" : $(name).value]));
    return { environment: chosen(), ...values };
  }

  async function start(event) {
    event.preventDefault();
    if ($("start").disabled) return;
    $("start").disabled = true;
    $("state").textContent = "Starting …";
    const { content, error, field, gone } = await ask("start", sent());
    if (gone) return location.reload();  // it was started in another tab
    if (content) return location.pathname === content.address ? location.reload() : location.replace(content.address);
    $("start").disabled = false;
    $("state").textContent = "";
    for (const name of ["environment", ...fields]) wrong($(name), name === field ? error : "");
    $("form-wrong").hidden = Boolean(field);
    $("form-wrong").textContent = field ? "" : sentence(error);
    if (!field) return;
    const wanted = field === "environment" && !$("other").checked ? radios[0] : $(field);
    if ($("advanced").contains(wanted)) $("advanced").open = true;
    wanted.focus();
  }

  for (const radio of radios) radio.addEventListener("change", look);
  $("environment").addEventListener("input", () => { $("other").checked = true; wrong($("environment"), ""); showChoice(); });
  $("environment").addEventListener("change", look);
  for (const name of fields) $(name).addEventListener("input", () => { wrong($(name), ""); if (name === "horizon") showChoice(); });
  $("form").addEventListener("submit", start);

  const first = form.values.environment || (known.has("FrozenLake-v1") ? "FrozenLake-v1" : form.environments[0].name);
  const radio = radios.find((one) => one.value === first);
  if (radio) radio.checked = true;
  if (!form.pictured.includes(first)) $("advanced").open = true;
  if (!radio) { $("other").checked = true; $("environment").value = first; }
  look();

  // The pictures come after the page: to draw them takes a moment.
  for (const place of document.querySelectorAll(".preview")) {
    ask(`picture?name=${encodeURIComponent(place.dataset.name)}`).then(({ content }) => {
      if (content && content.picture) place.append(element("img", { src: content.picture, alt: "" }));
    });
  }
})();
