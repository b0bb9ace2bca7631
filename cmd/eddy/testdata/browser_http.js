// What a page does with the server that it came from ("eddy serve http"). Resolves to the names of what went wrong.
(async () => {
  const wrong = [];
  const check = (name, ok, seen) => { if (!ok) wrong.push(`${name}: ${seen}`); };
  const ask = async (path, options) => {
    const r = await fetch(path, options);
    return { status: r.status, text: await r.text(), headers: r.headers };
  };
  const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, '0')).join('');

  let r = await ask('/');
  check('GET', r.status === 200 && r.text === 'OK', `${r.status} ${r.text}`);
  r = await ask('/', { method: 'HEAD' });
  check('HEAD', r.status === 200 && r.text === '' && r.headers.get('content-length') === '2', `${r.status} ${r.headers.get('content-length')}`);
  r = await ask('/', { method: 'OPTIONS' });
  check('OPTIONS', r.status === 200 && r.headers.get('allow') === 'GET, HEAD, OPTIONS, POST', r.headers.get('allow'));
  r = await ask('/', { method: 'POST', body: 'grüße 人工', headers: { 'Content-Type': 'text/x-test' } });
  check('POST', r.text === 'grüße 人工' && r.headers.get('content-type') === 'text/x-test', `${r.status} ${r.text}`);
  r = await ask('/', { method: 'POST', body: '' });
  check('empty POST', r.status === 200 && r.text === '', `${r.status} ${r.text}`);
  r = await ask('/', { method: 'DELETE' });
  check('DELETE', r.status === 405, r.status);
  r = await ask('/nowhere');
  check('nowhere', r.status === 404, r.status);
  r = await ask('/echo', { headers: { 'X-Test': 'a value' } });
  check('header', r.text.includes('\nX-Test: a value\n'), r.text);
  document.cookie = 'flavour=plain';
  r = await ask('/cookie');
  check('cookie', r.text === 'flavour=plain\n', r.text);

  // Streaming down: the digits in their order, over many pieces.
  const size = 1_000_001;
  let response = await fetch(`/bytes?n=${size}`);
  let reader = response.body.getReader();
  let got = 0, ordered = true, pieces = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces++;
    for (const b of value) ordered &&= b === 48 + got++ % 10;
  }
  check('stream', got === size && ordered, `${got} bytes in ${pieces} pieces, in order: ${ordered}`);

  // What has no end comes piece by piece; a reader that goes away in the middle, and one that gives up before there is an answer.
  response = await fetch('/bytes?n=1000000000000');
  reader = response.body.getReader();
  const first = await reader.read();
  check('first piece', !first.done && first.value.length > 0, `done: ${first.done}`);
  await reader.cancel();
  const abort = new AbortController();
  const slow = fetch('/slow?ms=300', { signal: abort.signal }).then(() => 'answered', (e) => e.name);
  abort.abort();
  check('abort', await slow === 'AbortError', await slow);

  // Streaming up.
  const body = new Uint8Array(1_000_000).map((_, i) => i * 7);
  r = await ask('/upload', { method: 'POST', body });
  check('upload', r.text === hex(await crypto.subtle.digest('SHA-256', body)) + '\n', r.text);
  const form = new FormData();
  form.append('file', new Blob([body]), 'name.bin');
  r = await ask('/upload', { method: 'PUT', body: form });
  check('form', r.status === 200 && /^[0-9a-f]{64}\n$/.test(r.text), `${r.status} ${r.text}`);
  const refused = await fetch('/', { method: 'POST', body: new Uint8Array(9 << 20) }).then((x) => x.status, (e) => e.name);
  check('too large', refused === 413 || refused === 'TypeError', refused); // a browser may still be sending when the server has closed

  // As many at a time as the browser likes.
  const all = await Promise.all(Array.from({ length: 40 }, (_, i) => ask('/', { method: 'POST', body: `number ${i}` })));
  all.forEach((x, i) => check(`parallel ${i}`, x.text === `number ${i}`, `${x.status} ${x.text}`));
  return wrong;
})()
