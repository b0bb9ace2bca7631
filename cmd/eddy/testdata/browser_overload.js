(async () => {
  // What the operator's page says of an overload manager that is short of memory; the result is a list of what is wrong.
  const wrong = [], table = document.querySelector("#overload"), cells = () => [...table.tBodies[0].querySelectorAll("th, td")].map((c) => c.innerText.replaceAll("\u00a0", " "));
  const until = async (what, f) => {
    for (const end = Date.now() + 15000; !f(); await new Promise((r) => setTimeout(r, 20))) if (Date.now() > end) { wrong.push(`${what}: not within 15 seconds, but ${cells().join(" | ")}`); return; }
  };
  const says = (...want) => want.every((w, i) => w.test(cells()[i]));
  await until("grade and source", () => table.checkVisibility() && says(/^rpc$/, /^stop_accepting \(memory\)$/, /^memory \d\d\d+ %, descriptors \d+ %, cpu \d+ %, loop_lag/, /stop_accepting 1 \(in force\)$/));
  if (getComputedStyle(table.rows[1].cells[1]).color === getComputedStyle(table.rows[1].cells[0]).color) wrong.push("the grade looks as if nothing were wrong");

  // A manager that has rested since, and one with many sources that cannot be read.
  const ask = window.fetch, rested = {name: "<b>rested", grade: "none", source: "memory", sources: [{name: "memory", pressure: 0.42}], actions: [{name: "end_idle", active: false, began: 3, ended: 3}]};
  const broken = {name: "broken", grade: "end_idle", source: "", sources: [{name: "a_source_of_the_programs_own", pressure: 0, error: "open " + "x".repeat(200)}], actions: []};
  window.fetch = async (path, options) => {
    const answer = await ask(path, options);
    return path.startsWith("stats.json") && answer.ok ? Response.json({...await answer.json(), overload: [rested, broken]}) : answer;
  };
  await until("both", () => says(/^<b>rested$/, /^none$/, /^memory 42 %$/, /^end_idle 3$/, /^broken$/, /^end_idle$/, /: open x+$/, /^$/));
  if (getComputedStyle(table.rows[1].cells[1]).color !== getComputedStyle(table.rows[1].cells[0]).color) wrong.push("a grade of none looks wrong");
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("a long error makes the page too wide");
  window.fetch = ask;
  await until("the real one again", () => says(/^rpc$/, /^stop_accepting/));
  return wrong;
})()
