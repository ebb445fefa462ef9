// The what-if page: the limit moves the advice, and a point or a row shows what another choice would do.
{
  const data = JSON.parse(document.getElementById("what-if").textContent), { choices, limits, base } = data;
  const find = (selector) => [...document.querySelectorAll(selector)];
  const range = document.getElementById("grow"), parts = ["advice", "four", "brief"].map((id) => document.getElementById(id));
  const [advice] = parts, answer = Object.fromEntries(parts.map((part) => [part.id, part.innerHTML]));
  const home = () => (limits.length ? limits[at].take : data.seen);
  let at = data.given, shown = home();

  // The limit's line and what it advises; without a limit, what is beyond twice the first choice's longest wait.
  function settings() {
    const { take, longest } = limits[at] ?? { take: undefined, longest: null };
    const starved = 2 * choices[0].longest, words = longest === null ? `more than twice ${base.whose}` : `limit ${duration(longest)}`;
    const best = take === undefined ? "" : `${choices[take].name} is advised. `;
    return {
      reference: 0, referenceName: base.name, chosen: take, strong: [shown], limit: longest ?? starved, flagged: starved, line: longest !== null,
      limitName: words, shortName: words, height: Math.max(300, Math.min(380, innerHeight - 480)), paper: 200,
      label: `Slowdown and longest wait of ${choices.length} choices. ${best}The table of all choices has every value.`,
    };
  }

  const say = (said) => { for (const part of parts) part.innerHTML = said[part.id]; };

  // What the k-th choice would do.
  function show(k) {
    shown = k;
    const { longest, said = answer, grown, upTo } = limits[at] ?? {}, take = home();
    say(k === take ? said : choices[k].said);
    if (k !== take) {
      const words = advice.querySelector(".answer"), back = document.createElement("button");
      if (typeof longest === "number" && choices[k].longest > longest) words.append(": above the limit");
      back.type = "button";
      back.id = "back";
      back.textContent = limits.length ? `Back to the advice, ${choices[take].name}` : "Back to the answer";
      back.addEventListener("click", () => { go(take); advice.focus(); });
      words.append(" ", back);
    }
    if (range) {
      document.getElementById("grown").textContent = grown;
      document.getElementById("up-to").textContent = upTo;
      range.setAttribute("aria-valuetext", `${grown} ${upTo}: ${choices[take].name}`);
    }
    for (const part of find("[data-choice]")) part.hidden = Number(part.dataset.choice) !== k;
    for (const row of find("[data-limit]")) row.classList.toggle("chosen", row.dataset.limit.split(" ").includes(`${at}`));
    for (const row of find("[data-pick]")) row.classList.toggle("chosen", Number(row.dataset.pick) === k);
    plot.set(settings());
    scrollers();
  }

  // The same, and the address says which choice and limit are shown.
  function go(k) {
    const named = limits.length ? { limit: limits[at].key, choice: choices[k].key } : { choice: choices[k].key };
    history.replaceState(null, "", `#${new URLSearchParams(named)}`);
    show(k);
  }

  // The limit and the choice that the address names, if it names any.
  function follow() {
    const named = new URLSearchParams(location.hash.slice(1));
    const limit = limits.findIndex(({ key }) => key === named.get("limit"));
    if (limit >= 0) at = range.value = limit;
    const choice = choices.findIndex(({ key }) => key === named.get("choice"));
    if (limit >= 0 || choice >= 0) show(choice < 0 ? home() : choice);
  }

  // The space of the longest answer, so that the slider stays where it is.
  function reserve() {
    const now = parts.map((part) => [...part.childNodes]), heights = parts.map(() => 0);
    for (const part of parts) part.style.minHeight = "";
    for (const { said } of limits) {
      say(said);
      parts.forEach((part, i) => { heights[i] = Math.max(heights[i], part.getBoundingClientRect().height); });
    }
    parts.forEach((part, i) => {
      part.replaceChildren(...now[i]);
      part.style.minHeight = `${heights[i]}px`;
    });
  }

  function move(to) {
    at = to;
    range.value = to;
    go(limits[to].take);
  }

  for (const words of find(".picked")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...words.childNodes);
    words.replaceWith(button);
  }
  advice.tabIndex = -1;
  const plot = tradeoff(document.getElementById("tradeoff"), choices, { ...settings(), pick: go });
  for (const part of find(".live")) part.hidden = false;
  reserve();
  follow();
  addEventListener("resize", reserve);
  addEventListener("hashchange", follow);
  if (range) range.addEventListener("input", () => move(Number(range.value)));
  for (const [name, pick] of [["limit", move], ["pick", go]])
    for (const row of find(`[data-${name}]`))
      row.addEventListener("click", () => {
        pick(parseInt(row.dataset[name]));  // the first limit of several
        advice.scrollIntoView({ block: "center" });
      });
  for (const button of find("button.copy"))
    button.addEventListener("click", async () => {
      const file = button.parentElement.nextElementSibling, words = button.textContent;
      try {
        await navigator.clipboard.writeText(file.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(file);
        button.textContent = "Selected: press Ctrl+C";
      }
      setTimeout(() => { button.textContent = words; }, 2500);
    });
}
