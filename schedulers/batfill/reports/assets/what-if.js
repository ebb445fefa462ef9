/* The what-if page: the limit moves the advice, and a point or a row shows what another choice would do. */
{
  const data = JSON.parse(document.getElementById("what-if").textContent);
  const find = (selector) => [...document.querySelectorAll(selector)];
  const advice = document.getElementById("advice"), range = document.getElementById("grow");
  let at = data.given, shown = data.advised;

  const limit = () => data.limits[at] ?? { take: null, longest_s: null };

  function chart() {
    const { take, longest_s } = limit();
    const points = data.choices.map(({ name, slowdown, longest_s }) => ({ name, slowdown, longest_s }));
    tradeoff(document.getElementById("trade"), points, { limit: longest_s, reference: 0, advised: take, chosen: shown, pick: choose });
  }

  function show() {
    const { take, longest_s, said, grown, up_to } = limit();
    if (shown === take) advice.innerHTML = said;
    else {
      const choice = data.choices[shown], above = longest_s !== null && choice.longest_s > longest_s;
      advice.innerHTML = `<p class="answer">${choice.said}${above ? " That is above your limit." : ""}</p>`;
    }
    if (range && take !== null) {
      document.getElementById("grown").textContent = grown;
      document.getElementById("up-to").textContent = up_to;
      range.setAttribute("aria-valuetext", `${grown} ${up_to}: ${data.choices[take].name}`);
    }
    for (const part of find("[data-choice]")) part.hidden = Number(part.dataset.choice) !== (shown ?? Number(part.dataset.choice));
    for (const row of find("tr[data-limit]")) row.classList.toggle("chosen", Number(row.dataset.limit) === at);
    for (const row of find("tr[data-pick]")) row.classList.toggle("chosen", Number(row.dataset.pick) === shown);
    chart();
  }

  function choose(k) {
    shown = k;
    show();
  }

  function move(to) {
    at = to;
    if (range) range.value = to;
    choose(limit().take);
  }

  for (const part of find(".live")) part.hidden = false;
  range?.addEventListener("input", () => move(Number(range.value)));
  const top = () => advice.scrollIntoView({ block: "center" });
  for (const row of find("tr[data-limit]")) row.querySelector("button").addEventListener("click", () => { move(Number(row.dataset.limit)); top(); });
  for (const row of find("tr[data-pick]")) row.querySelector("button").addEventListener("click", () => { choose(Number(row.dataset.pick)); top(); });
  for (const button of find("button.copy"))
    button.addEventListener("click", async () => {
      const part = button.closest("[data-system]"), words = button.textContent;
      const text = [...part.querySelectorAll("pre")].map((file) => file.textContent).join("\n\n");
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(part.querySelector("pre"));
        button.textContent = "Selected: press Ctrl+C";
      }
      setTimeout(() => { button.textContent = words; }, 2500);
    });
  chart();
}
