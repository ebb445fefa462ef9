// The what-if page: the limit moves the advice, and a point or a row shows what another choice would do.
{
  const data = JSON.parse(document.getElementById("what-if").textContent), { choices, limits } = data;
  const find = (selector) => [...document.querySelectorAll(selector)];
  const advice = document.getElementById("advice"), range = document.getElementById("grow");
  let at = data.given, shown = limits.length ? limits[at].take : data.seen;

  // The limit's line and what it advises; without a limit, what is beyond twice today's longest wait.
  function settings() {
    const { take, longest, said } = limits[at] ?? { take: undefined, longest: null };
    const starved = 2 * choices[0].longest, words = longest === null ? "more than twice today's" : `limit ${duration(longest)}`;
    const best = take === undefined ? "" : `${choices[take].name} is advised. `;
    return {
      reference: 0, referenceName: "today", chosen: take, strong: [shown], limit: longest ?? starved, flagged: starved, line: longest !== null,
      limitName: words, shortName: words, height: Math.max(300, Math.min(380, innerHeight - 480)), paper: 262,
      label: `Slowdown and longest wait of ${choices.length} choices. ${best}The table of all choices has every value.`,
    };
  }

  function show(k) {
    shown = k;
    const { take, longest, said, grown, upTo } = limits[at] ?? {};
    const above = typeof longest === "number" && choices[k].longest > longest ? " Its longest wait is above the limit." : "";
    advice.innerHTML = k === take ? said : `<p class="answer">${choices[k].said}${above}</p>`;
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

  // The space of the longest answer, so that the slider stays where it is.
  function reserve() {
    const now = advice.innerHTML;
    advice.style.minHeight = "";
    const heights = limits.map(({ said }) => (advice.innerHTML = said, advice.offsetHeight));
    advice.innerHTML = now;
    advice.style.minHeight = `${Math.max(0, ...heights)}px`;
  }

  function move(to) {
    at = to;
    range.value = to;
    show(limits[to].take);
  }

  const plot = tradeoff(document.getElementById("tradeoff"), choices, { ...settings(), pick: show });
  for (const part of find(".live")) part.hidden = false;
  reserve();
  addEventListener("resize", reserve);
  if (range) range.addEventListener("input", () => move(Number(range.value)));
  for (const [name, pick] of [["limit", move], ["pick", show]])
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
