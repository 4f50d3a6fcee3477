// Ask the server; what it answers, or what went wrong, in words.
async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  };
  try {
    const response = await fetch(path, { ...options, cache: "no-store" });
    if (response.status === 404) return { gone: true, error: "This page is out of date: load it again." };
    const content = await response.json();
    return response.ok ? { content } : { error: content.error, field: content.field };
  } catch {
    return { lost: true, error: "The server does not answer. Nothing that you typed is lost: try again when it does." };
  }
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const capital = (words) => words[0].toUpperCase() + words.slice(1);
const sentence = (words) => capital(words) + (/[.?!…]$/.test(words) ? "" : ".");

// Say next to a field what is wrong with it, or that nothing is any more.
function wrong(field, words) {
  const place = document.getElementById(`${field.id}-wrong`);
  place.textContent = words ? sentence(words) : "";
  place.hidden = !words;
  if (words) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
}
