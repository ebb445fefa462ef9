// The search above the queue: rows that hold all of its words stay.
for (const form of document.querySelectorAll("form.search")) {
  const rows = [...form.parentElement.querySelectorAll("tbody tr")], said = form.querySelector("output");
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const search = () => {
    const words = form.elements.words.value.toLowerCase().split(/\s+/);
    let shown = 0;
    rows.forEach((row, k) => {
      row.hidden = !words.every((word) => texts[k].includes(word));
      shown += !row.hidden;
    });
    said.textContent = shown < rows.length ? `${shown} of ${rows.length} jobs` : "";
  };
  form.addEventListener("input", search);
  form.addEventListener("submit", (event) => event.preventDefault());
  search();
}
