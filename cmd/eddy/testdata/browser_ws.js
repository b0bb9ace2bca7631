// What a page does with "eddy serve ws". ADDRESS and COMPRESSED are replaced. Resolves to the names of what went wrong.
(async () => {
  const wrong = [];
  const check = (name, ok, seen) => { if (!ok) wrong.push(`${name}: ${seen}`); };
  const address = ADDRESS;
  const open = (path, ...more) => new Promise((resolve, reject) => {
    const s = new WebSocket(address + path, ...more);
    s.binaryType = 'arraybuffer';
    s.onopen = () => resolve(s);
    s.onerror = () => reject(new Error(`cannot connect to ${address}${path}`));
  });
  const ended = (s) => new Promise((resolve) => { s.onclose = (e) => resolve(e); s.onerror = null; });
  const echo = (s, message) => new Promise((resolve, reject) => {
    s.onmessage = (e) => resolve(e.data);
    s.onclose = (e) => reject(new Error(`closed with ${e.code} ${e.reason}`));
    s.send(message);
  });
  const same = (a, b) => {
    if (typeof a === 'string' || typeof b === 'string') return a === b;
    const x = new Uint8Array(a), y = new Uint8Array(b);
    return x.length === y.length && x.every((v, i) => v === y[i]);
  };

  const s = await open('/any/path?and=query');
  check('extensions', s.extensions.startsWith('permessage-deflate') === COMPRESSED, s.extensions);
  check('protocol', s.protocol === '', s.protocol);
  let state = 1;
  const noise = new Uint8Array(600_000).map(() => (state = (state * 1103515245 + 12345) >>> 0) >>> 24);
  const messages = {
    'text': 'hello', 'empty text': '', 'wide text': 'grüße 人工 😀'.repeat(10), 'large text': 'tell me again 人工 '.repeat(30_000),
    'binary': new Uint8Array([0, 255, 1]).buffer, 'empty binary': new ArrayBuffer(0), 'large zeros': new ArrayBuffer(2_000_000), 'large noise': noise.buffer,
  };
  for (const [name, message] of Object.entries(messages)) {
    const answer = await echo(s, message);
    check(name, same(answer, message), `${typeof answer} of ${answer.length ?? answer.byteLength}`);
  }

  // Many at once come back in order.
  const order = [];
  await new Promise((resolve, reject) => {
    s.onmessage = (e) => { if (order.push(e.data) === 300) resolve(); };
    s.onclose = (e) => reject(new Error(`closed with ${e.code}`));
    for (let i = 0; i < 300; i++) s.send(`number ${i}`);
  });
  check('order', order.every((m, i) => m === `number ${i}`), order.slice(0, 5));

  // How it ends: with the code that the page gives, or none.
  for (const [args, code] of [[[1000, 'done'], 1000], [[3001, 'grüße'], 3001], [[4999], 4999], [[], 1005]]) {
    const c = await open('/');
    const end = ended(c);
    c.close(...args);
    const e = await end;
    check(`close(${args})`, e.wasClean && e.code === code, `${e.code} "${e.reason}" clean ${e.wasClean}`);
  }
  // A message above --max-message is answered 1009.
  const big = await open('/');
  const end = ended(big);
  big.send(new ArrayBuffer(2_500_001));
  const e = await end;
  check('too big', e.code === 1009, `${e.code} "${e.reason}" clean ${e.wasClean}`);
  s.close();

  // One stays, for the test to see what the page is told when the server ends.
  window.last = await open('/');
  window.lastEnd = ended(window.last).then((x) => x.code);
  return wrong;
})()
