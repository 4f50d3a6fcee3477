(() => {
  const $ = (id) => document.getElementById(id);
  const key = `interview ${location.pathname}`;

  // What this browser remembers of the person who joined with it; some browsers keep nothing.
  function remembered() {
    try {
      const found = JSON.parse(localStorage.getItem(key));
      return found && /^\/[\w-]{32}\/$/.test(found.address) ? found : null;
    } catch { return null; }
  }

  async function welcomeBack() {
    const found = remembered();
    if (!found) return;
    const still = await fetch(found.address, { method: "HEAD", cache: "no-store" }).catch(() => null);
    if (!still || !still.ok) return;
    $("again-title").textContent = `Welcome back, ${found.name}`;
    $("own").textContent = `Go on as ${found.name}`;
    $("own").href = found.address;
    $("again").hidden = false;
    $("join-title").textContent = "Or are you somebody else?";
    $("own").focus();
  }

  $("join").addEventListener("submit", async (event) => {
    event.preventDefault();
    $("go").disabled = true;
    const { content, error } = await ask("join", { name: $("name").value });
    $("go").disabled = false;
    wrong($("name"), error);
    if (error) return $("name").focus();
    try { localStorage.setItem(key, JSON.stringify(content)); } catch { /* then the address has to do */ }
    location.assign(content.address);
  });
  $("name").focus();
  welcomeBack();
})();
