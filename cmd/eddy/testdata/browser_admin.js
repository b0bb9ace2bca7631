(async () => {
  // What the operator's page shows and does; the result is a list of what is wrong.
  const wrong = [], $ = (q) => document.querySelector(q);
  const until = async (what, f) => {
    for (const end = Date.now() + 60000; ; await new Promise((r) => setTimeout(r, 20))) {
      if (f()) return true;
      if (Date.now() > end) { wrong.push(`${what}: not within a minute`); return false; }
    }
  };
  window.confirm = () => true;
  const peer = PEER;
  await until("a state", () => ["ready", "not ready"].includes($("#badge").textContent));
  await until("all charts", () => document.querySelectorAll("#charts figure").length === 8 && [...document.querySelectorAll("#charts .curve[d^=M]")].length >= 8);
  const seq = Number(document.body.dataset.seq);
  await until("new samples without a reload", () => Number(document.body.dataset.seq) >= seq + 2);
  await until("the number of connections", () => /^Connections: open [1-9]/.test($("#charts svg[role=img]").getAttribute("aria-label") || ""));
  for (const [table, text] of [["#loops", "http worker-0"], ["#pools", "0 of 64"], ["#closes", "normal"]]) await until(`${table} with ${text}`, () => $(table).textContent.includes(text));
  if (!/^Process \d+, go/.test($("#process").textContent)) wrong.push(`process: ${$("#process").textContent}`);

  // This program has no lanes: their table is not there until the numbers have some, and goes with them.
  const ask = window.fetch, lanes = [{set: "<b>set", name: "heavy", workers: 2, queued: 3, capacity: 11, spilled: 4, done: 6, rejected: 7, waited: 8, lost: 9, panics: 10, fault: "<i>full"}];
  lanes.push({...lanes[0], name: "light", queued: 12345, fault: undefined});
  const visible = () => $("#lanes").checkVisibility(), text = () => [...$("#lanes").tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent).join("|")).join();
  if (visible()) wrong.push("there is a table of lanes without lanes");
  window.fetch = async (path, options) => {
    const answer = await ask(path, options);
    return path.startsWith("stats.json") && answer.ok ? Response.json({...await answer.json(), lanes}) : answer;
  };
  await until("the lanes", () => visible() && text() === "<b>set heavy|2|3 of 11|4|6|7|8|9|10|<i>full,<b>set light|2|12.3 k of 11|4|6|7|8|9|10|");
  window.fetch = ask;
  await until("the end of the lanes", () => !visible());

  const chart = $("#charts svg[tabindex]");
  chart.focus();
  chart.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft", bubbles: true, cancelable: true}));
  await until("a reading by keys", () => /seconds ago/.test(chart.getAttribute("aria-label")));
  chart.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
  chart.blur();

  const row = () => [...document.querySelectorAll("#table tbody tr")].find((r) => r.textContent.startsWith(peer));
  await until("the row of " + peer, () => row());
  const close = row()?.querySelector("button");
  if (!close?.getAttribute("aria-label").includes(peer)) wrong.push("the button does not say what it closes");
  close?.click();
  await until("the row to go", () => !row() && $("#found").textContent.includes(`${peer} was closed`));
  $("[name=closed]").value = "1";
  $("[name=reason]").value = "normal";
  $("#filter").requestSubmit();
  await until("the one that ended", () => row()?.textContent.includes("closed by the operator"));
  $("[name=peer]").value = "nobody";
  $("#filter").requestSubmit();
  await until("an error with what would be right", () => $("#found").textContent.includes("want an address"));
  $("[name=peer]").value = "";
  $("#filter").reset();
  $("#filter").requestSubmit();

  await until("the log level", () => !$("#level").hidden && $("#level select").value === "info");
  $("#level select").value = "debug";
  $("#level select").dispatchEvent(new Event("change"));
  await until("the log level to be set", () => $("#level-said").value === "set");

  $("#pause").click();
  if ($("#pause").getAttribute("aria-pressed") !== "true") wrong.push("pause is not pressed");
  $("#pause").click();

  for (const control of document.querySelectorAll("input, select")) if (!control.labels.length) wrong.push(`${control.name} has no label`);
  const ids = [...document.querySelectorAll("[id]")].map((n) => n.id);
  if (new Set(ids).size !== ids.length) wrong.push("an id is there twice");
  const foreign = performance.getEntriesByType("resource").map((r) => r.name).filter((name) => !name.startsWith(location.origin + "/"));
  if (foreign.length) wrong.push(`loaded from elsewhere: ${foreign}`);
  let inline = false;
  try { eval("inline = true"); } catch { /* as it should be */ }
  if (inline) wrong.push("the policy lets text become a script");
  return wrong;
})()
