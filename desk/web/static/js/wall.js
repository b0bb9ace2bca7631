// The supervisor's wall: live numbers, who waits, who answers.

import './wall/texts.js';
import { call } from './core/api.js';
import { bars, ceiling, ceilingTime, draw as drawChart } from './wall/chart.js';
import { ask } from './core/dialog.js';
import { byId, el, setText } from './core/dom.js';
import { clock, locale, number, t, waited } from './core/i18n.js';
import { languageMenu } from './wall/page-language.js';
import { Poll } from './wall/poll.js';
import { AgentCard, ChatLink, Keyed, level } from './wall/agents.js';
import { inTime, levelOf, targetsOf, warningsOf } from './wall/targets.js';

const every = 2_000;
const state = { data: null, at: 0, skew: 0, retryAt: 0, trouble: null };

const queue = new Keyed(byId('queue'), (c) => new ChatLink(c));
const groups = new Keyed(byId('groups'), () => {
	const name = el('span');
	const target = el('span', { class: 'target', data: { testid: 'group-target' } });
	const cells = [el('th', { scope: 'row' }, name, ' ', target), ...Array.from({ length: 3 }, () => el('td', { class: 'number' }))];
	cells[2].classList.add('wait');
	return { name, target, cells, node: el('tr', { data: { testid: 'group' } }, ...cells) };
});
const warnings = new Keyed(byId('warnings'), () => ({ node: el('li', { data: { testid: 'target-warning' } }) }));
const servers = new Keyed(byId('servers'), () => {
	const cells = [el('th', { scope: 'row' }), ...['number', 'number', '', 'number', '', 'number'].map((c) => el('td', { class: c }))];
	return { cells, node: el('tr', { data: { testid: 'server' } }, ...cells) };
});
const agents = new Keyed(byId('agents'), (a) => new AgentCard(a, { force: state.data.me.perms.includes('force_state'), onStatus: forceStatus, onLogout: forceLogout }));

function tile(name, text, urgency = '') {
	const node = byId(`tile-${name}`);
	setText(node.querySelector('.tile-number'), text);
	node.dataset.level = urgency;
}

function today() {
	return new Date().setHours(0, 0, 0, 0);
}

const poll = new Poll({
	every,
	ask: () => call('GET', `/api/v1/supervisor/wall?since=${today()}`),
	onAnswer: (data) => {
		Object.assign(state, { data, at: Date.now(), skew: Date.now() - data.time, retryAt: 0, trouble: null });
		draw();
	},
	onError: (err, retryAt) => {
		if (err.status === 401) {
			location.assign('/console');
			return false;
		}
		state.trouble = err.status === 403 ? 'forbidden' : 'lost';
		state.retryAt = retryAt;
		draw();
		return err.status !== 403;
	},
});

async function change(path, body) {
	try {
		await call('POST', path, body);
	} catch (err) {
		state.trouble = { text: err.message };
		draw();
		return;
	}
	poll.now();
}

function forceStatus(agent, status) {
	change(`/api/v1/supervisor/agents/${encodeURIComponent(agent.id)}/status`, { status });
}

async function forceLogout(agent) {
	const yes = await ask({ title: t('wall.agent.logout.title', { name: agent.name }), body: t('wall.agent.logout.body'), confirm: t('wall.agent.logout') });
	if (yes) change('/api/v1/agent/sessions/revoke', { agent: agent.id });
}

function draw() {
	document.title = `${t('wall.title')} · Desk`;
	drawTrouble();
	if (!state.data) return;
	byId('admin-link').hidden = !state.data.me.perms.includes('manage');
	drawTiles(state.data);
	drawWarnings(state.data);
	drawQueue(state.data);
	const now = serverNow();
	agents.update(state.data.agents, (card, agent) => card.update(agent, now));
	drawServers(state.data.servers ?? []);
	drawCharts(state.data);
}

const duties = { router: 'wall.server.duty.router', hooks: 'wall.server.duty.hooks', mail: 'wall.server.duty.mail', files: 'wall.server.duty.files' };

// Where one server is alone there is nothing to tell apart. A newer one may have duties that this page has no words for.
function drawServers(list) {
	byId('servers-panel').hidden = list.length === 0;
	servers.update(list.map((s) => ({ ...s, id: `${s.name} ${s.since}` })), ({ cells }, s) => {
		const lag = s.behind ? t('wall.server.behind', { n: number(s.behind) }) : t('wall.server.ms', { n: number(s.lag) });
		const bus = s.bus ? t(`wall.server.bus.${s.bus}`) : '–';
		const does = s.duties.map((d) => (duties[d] ? t(duties[d]) : d)).join(', ');
		const name = s.name || t('wall.server.older');
		const texts = [s.version ? `${name} · ${s.version}` : name, number(s.agents), number(s.customers), does || '–', lag, bus, s.since ? waited(serverNow() - s.since) : '–'];
		texts.forEach((text, i) => setText(cells[i], text));
		cells[4].dataset.level = s.behind || s.lag > 1_000 ? 'amber' : '';
		cells[5].dataset.level = s.bus === 'down' ? 'amber' : '';
	});
}

/** The server's clock: waits are counted by it. */
function serverNow() {
	return Date.now() - state.skew;
}

function drawTrouble() {
	const line = byId('trouble');
	const words = {
		forbidden: () => t('wall.forbidden'),
		lost: () => t('wall.lost', { time: state.at ? clock(state.at) : '–', n: number(Math.max(1, Math.ceil((state.retryAt - Date.now()) / 1000))) }),
	};
	const { trouble, data } = state;
	let text = data?.partial ? t('wall.partial') : '';
	if (trouble) text = words[trouble]?.() ?? t('wall.failed', { text: trouble.text });
	line.hidden = !text;
	setText(line, text);
	byId('live-dot').dataset.on = trouble === 'lost' || trouble === 'forbidden' ? 'bad' : String(Boolean(data));
	let live = t('wall.live.waiting');
	if (trouble === 'lost' || trouble === 'forbidden') live = t('wall.live.lost');
	else if (data) live = t('wall.live', { time: clock(state.at) });
	setText(byId('live-text'), live);
}

function drawTiles(d) {
	const longest = d.queue.length ? serverNow() - Math.min(...d.queue.map((c) => c.since)) : 0;
	tile('waiting', number(d.waiting), level(longest));
	tile('longest', d.waiting ? waited(Math.max(longest, d.longest)) : '–', level(Math.max(longest, d.longest)));
	tile('open', number(d.waiting + d.assigned + d.bot));
	setText(byId('open-help'), t('wall.open.help', { agents: number(d.assigned), bot: number(d.bot) }));
	tile('online', number(d.agents.filter((a) => a.status !== 'offline').length));
	setText(byId('online-help'), t('wall.online.help', { n: number(d.ready) }));
	tile('abandoned', d.day ? number(d.day.abandoned) : '–', d.day?.abandoned ? 'amber' : '');
	tile('first', d.day?.first.n ? waited(d.day.first.median) : '–');
}

const percent = (share) => new Intl.NumberFormat(locale(), { style: 'percent' }).format(share);

// What is read out names groups only: it is said once, while numbers change.
function drawWarnings(d) {
	const list = warningsOf(d);
	byId('warnings').hidden = list.length === 0;
	warnings.update(list, ({ node }, w) => {
		node.dataset.level = w.level;
		const waiting = w.target.late === 1 ? 'wall.target.waiting.one' : 'wall.target.waiting.other';
		const key = w.why === 'waiting' ? waiting : `wall.target.${w.why}`;
		setText(node, t('wall.target.warning', { name: w.name, text: t(key, {
			n: number(w.target.late), time: waited(w.target.in), share: percent(inTime(w.target) ?? 0), percent: percent(w.target.percent / 100),
		}) }));
	});
	setText(byId('warnings-said'), list.length ? t('wall.target.said', { names: [...new Set(list.map((w) => w.name))].join(', ') }) : '');
}

function targetText(target) {
	if (!target) return '';
	const share = inTime(target);
	return t('wall.target.of', { time: waited(target.in), percent: percent(target.percent / 100), share: share === null ? '–' : percent(share) });
}

function drawQueue(d) {
	const now = serverNow();
	const targets = targetsOf(d);
	groups.update(d.groups, ({ name, target, cells }, g) => {
		const longest = g.waiting ? g.longest + Math.max(0, now - d.time) : 0;
		setText(name, g.name || t('wall.group.none'));
		setText(target, targetText(targets.get(g.id)));
		setText(cells[1], number(g.waiting));
		setText(cells[2], g.waiting ? waited(longest) : '–');
		cells[2].dataset.level = levelOf(longest, targets.get(g.id));
		setText(cells[3], number(g.online));
	});
	queue.update(d.queue, (link, c) => link.update(c, now - c.since, levelOf(now - c.since, targets.get(c.group))));
	byId('queue-empty').hidden = d.waiting > 0;
	const more = byId('queue-more');
	more.hidden = d.waiting <= d.queue.length;
	setText(more, t('wall.next.more', { n: number(d.waiting - d.queue.length) }));
}

function drawCharts(d) {
	const list = bars(d.minutes ?? [], serverNow());
	const sum = (name) => list.reduce((n, b) => n + b[name], 0);
	drawChart(byId('chart-arrivals'), {
		first: t('wall.chart.from'), title: t('wall.arrivals'), summary: t('wall.arrivals.sum', { n: number(sum('arrived')) }), show: (n) => number(n), scale: (n) => ceiling(Math.max(n, 4), [2, 4, 10]),
		bars: list.map((b) => ({ label: clock(b.at), value: b.arrived })),
	});
	const mean = (b) => (b.left ? b.waited / b.left : 0);
	drawChart(byId('chart-waits'), {
		first: t('wall.chart.from'), title: t('wall.waits'), summary: sum('left') ? t('wall.waits.sum', { time: waited(sum('waited') / sum('left')) }) : t('wall.waits.none'),
		show: (ms) => waited(ms), scale: ceilingTime, bars: list.map((b) => ({ label: clock(b.at), value: mean(b), slow: mean(b) >= 60_000 })),
	});
}

languageMenu('language', draw);
document.addEventListener('visibilitychange', () => poll.shown());
globalThis.addEventListener('online', () => poll.shown());
setInterval(() => { if (!document.hidden) draw(); }, 1_000); // waits go on between two answers
poll.now();
