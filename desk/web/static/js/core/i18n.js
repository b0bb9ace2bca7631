// Every text of the pages, in both languages that are built in, and the formats
// that depend on the language. The language follows the browser until the user
// chooses one. A page may offer more languages, whose texts are in files.

import { SafeStorage } from './storage.js';

const storageKey = 'desk.locale';

/** The languages the pages speak, with their own names. */
export const locales = { 'en': 'English', 'zh-CN': '简体中文' };

export const texts = {
	'en': {
		'app.name': 'Desk',

		'language': 'Language',
		'close': 'Close',
		'cancel': 'Cancel',
		'notice.storage': 'This browser blocks storage. Unsent messages are lost when you close the page.',

		'banner.offline': 'You are offline. Messages are kept and sent later.',
		'banner.draining': 'The service is restarting. Messages are kept.',
		'banner.reconnecting': 'Connection lost. Messages are kept.',
		'banner.connecting': 'Connecting…',
		'banner.slow': 'The connection is slow.',
		'banner.stopped': 'The server ended this session. Reload the page to go on.',
		'banner.blocked': 'This chat is not available to you.',
		'banner.sessions': 'This chat is open in too many places. Close one and reload.',
		'banner.retryIn': 'Trying again in {n} s.',
		'banner.trying': 'Trying now…',
		'banner.tryNow': 'Try now',

		'composer.label': 'Message',
		'composer.placeholder': 'Write a message',
		'composer.send': 'Send',
		'composer.count': '{n} of {max}',
		'composer.over': 'Too long by {n} characters.',

		'state.pending': 'Waiting to be sent',
		'state.accepted': 'Sent',
		'state.delivered': 'Delivered',
		'state.read': 'Read',
		'state.failed': 'Not sent',
		'failed.not_sent': 'Not sent.',
		'failed.too_large': 'Not sent: too long.',
		'failed.closed': 'Not sent: the chat was closed.',
		'failed.forbidden': 'Not sent: another agent has this chat.',
		'failed.conflict': 'Not sent: take the chat first.',
		'failed.blocked': 'Not sent: this chat is not available to you.',
		'failed.other': 'Not sent: the server refused it.',
		'retry': 'Retry',
		'discard': 'Delete',

		'messages.label': 'Messages',
		'messages.today': 'Today',
		'messages.yesterday': 'Yesterday',
		'messages.new.one': '1 new message',
		'messages.new.other': '{n} new messages',
		'messages.bottom': 'Go to the latest message',
		'messages.events.one': '1 event before',
		'messages.events.other': '{n} events before',
		'messages.loading': 'Loading the conversation…',
		'messages.you': 'You',
		'messages.note': '{name} · only staff see this',
		'messages.generated': 'Automatic answer, written by a machine',
		'typing.one': '{name} is typing…',

		'who.bot': 'Assistant',
		'who.customer': 'Customer',
		'who.agent': 'Agent',

		'event.opened': 'Chat started',
		'event.handoff.me': 'You asked for a person',
		'event.handoff.customer': 'The customer asked for a person',
		'event.handoff.other': 'Handed over to the team',
		'event.returned': 'Back in the queue',
		'event.reopened': 'The chat was reopened',
		'event.taken.other': '{name} joined the chat',
		'event.taken.me': 'You joined the chat',
		'event.closed.me': 'You closed the chat',
		'event.closed.customer': 'The customer closed the chat',
		'event.closed.agent': '{name} closed the chat',
		'event.closed.other': 'The chat was closed',

		'customer.title': 'Chat',
		'customer.menu': 'Menu',
		'customer.human': 'Talk to a person',
		'customer.human.sent': 'Asking for a person…',
		'customer.end': 'End chat',
		'customer.end.title': 'End this chat?',
		'customer.end.body': 'You can start a new one at any time.',
		'customer.end.failed': 'The chat could not be ended. Try again when you are connected.',
		'customer.header.connecting': 'Connecting…',
		'customer.header.bot': 'Automatic assistant',
		'customer.header.waiting': 'Waiting for a person',
		'customer.header.offline': 'Not connected',
		'customer.header.online': 'Online',
		'customer.header.away': 'Away for the moment',
		'customer.header.closed': 'Chat closed',
		'customer.queue.position': 'You are number {n} in the queue',
		'customer.queue.next': 'You are next',
		'customer.queue.unknown': 'You are in the queue',
		'customer.queue.hint': 'You can keep writing, it will be seen.',
		'customer.closed.title': 'This chat is closed',
		'customer.closed.hint': 'Thank you for writing to us. Is there anything else?',
		'customer.again': 'Start again',
		'customer.unknownSite': 'There is no chat at this address. Check the link that brought you here.',
		'customer.unavailable': 'The chat cannot be reached. Trying again.',
		'customer.opening': 'Opening the chat…',
	},
	'zh-CN': {
		'app.name': 'Desk',

		'language': '语言',
		'close': '关闭',
		'cancel': '取消',
		'notice.storage': '浏览器禁止了存储。关闭页面后，未发送的消息会丢失。',

		'banner.offline': '网络已断开。消息已保留，稍后发送。',
		'banner.draining': '服务正在重启。消息已保留。',
		'banner.reconnecting': '连接已断开。消息已保留。',
		'banner.connecting': '正在连接…',
		'banner.slow': '当前连接较慢。',
		'banner.stopped': '服务器结束了本次会话。请刷新页面后继续。',
		'banner.blocked': '您无法使用此聊天。',
		'banner.sessions': '此聊天在太多地方打开。请关闭一个后刷新。',
		'banner.retryIn': '{n} 秒后重试。',
		'banner.trying': '正在重试…',
		'banner.tryNow': '立即重试',

		'composer.label': '消息',
		'composer.placeholder': '输入消息',
		'composer.send': '发送',
		'composer.count': '{n} / {max}',
		'composer.over': '超出 {n} 个字符。',

		'state.pending': '等待发送',
		'state.accepted': '已发送',
		'state.delivered': '已送达',
		'state.read': '已读',
		'state.failed': '未发送',
		'failed.not_sent': '未发送。',
		'failed.too_large': '未发送：内容过长。',
		'failed.closed': '未发送：对话已结束。',
		'failed.forbidden': '未发送：该对话由其他客服接待。',
		'failed.conflict': '未发送：请先接入对话。',
		'failed.blocked': '未发送：您无法使用此聊天。',
		'failed.other': '未发送：服务器拒绝了该消息。',
		'retry': '重试',
		'discard': '删除',

		'messages.label': '消息记录',
		'messages.today': '今天',
		'messages.yesterday': '昨天',
		'messages.new.other': '{n} 条新消息',
		'messages.bottom': '回到最新消息',
		'messages.events.other': '此前 {n} 条记录',
		'messages.loading': '正在加载对话…',
		'messages.you': '您',
		'messages.note': '{name} · 仅客服可见',
		'messages.generated': '自动回答，由机器生成',
		'typing.one': '{name} 正在输入…',

		'who.bot': '智能助手',
		'who.customer': '客户',
		'who.agent': '客服',

		'event.opened': '对话开始',
		'event.handoff.me': '您请求了人工客服',
		'event.handoff.customer': '客户请求人工客服',
		'event.handoff.other': '已转接人工客服',
		'event.returned': '已回到排队队列',
		'event.reopened': '对话已重新打开',
		'event.taken.other': '{name} 加入了对话',
		'event.taken.me': '您加入了对话',
		'event.closed.me': '您结束了对话',
		'event.closed.customer': '客户结束了对话',
		'event.closed.agent': '{name} 结束了对话',
		'event.closed.other': '对话已结束',

		'customer.title': '在线客服',
		'customer.menu': '菜单',
		'customer.human': '转人工客服',
		'customer.human.sent': '正在请求人工客服…',
		'customer.end': '结束对话',
		'customer.end.title': '结束此次对话？',
		'customer.end.body': '您随时可以开始新的对话。',
		'customer.end.failed': '未能结束对话。请在连接恢复后重试。',
		'customer.header.connecting': '正在连接…',
		'customer.header.bot': '自动应答助手',
		'customer.header.waiting': '等待人工客服',
		'customer.header.offline': '未连接',
		'customer.header.online': '在线',
		'customer.header.away': '暂时离开',
		'customer.header.closed': '对话已结束',
		'customer.queue.position': '您排在第 {n} 位',
		'customer.queue.next': '下一位就是您',
		'customer.queue.unknown': '您正在排队',
		'customer.queue.hint': '您可以继续留言，客服会看到。',
		'customer.closed.title': '此次对话已结束',
		'customer.closed.hint': '感谢您的来信。还有其他问题吗？',
		'customer.again': '重新开始',
		'customer.unknownSite': '此地址没有聊天服务。请检查您打开的链接。',
		'customer.unavailable': '暂时无法连接客服，正在重试。',
		'customer.opening': '正在打开对话…',
	},
};

/** Adds the texts of one page: {locale: {key: text}}. A module of texts calls it before anything is drawn. */
export function addTexts(more) {
	for (const [tag, pairs] of Object.entries(more)) Object.assign(texts[tag], pairs);
}

const storage = new SafeStorage();
const state = { locale: choose() };
const formats = new Map(); // making a format costs far more than using it
const listeners = new Set();
const files = new Map(); // tag -> {at, dir} of the languages that are in files
const patience = 10_000; // ms for such a file

function choose() {
	const kept = storage.get(storageKey);
	if (kept in locales) return kept;
	for (const tag of globalThis.navigator?.languages ?? [globalThis.navigator?.language ?? 'en']) {
		const found = matching(tag);
		if (found) return found;
	}
	return 'en';
}

/** The offered language for a wanted one: itself, or another one of the same name, as es for es-MX; '' for none. */
export function matching(wanted) {
	const tags = Object.keys(locales);
	const name = (tag) => tag.toLowerCase().split('-', 1)[0];
	return tags.find((tag) => tag.toLowerCase() === wanted.toLowerCase()) ?? tags.find((tag) => name(tag) === name(wanted)) ?? '';
}

/**
 * Offers languages whose texts are in files. The promise ends when the language in use can be drawn.
 * @param {Object<string, {name: string, dir: string, at: string}>} more by tag; at is the address of the file
 */
export async function offerLanguages(more) {
	for (const [tag, { name, dir, at }] of Object.entries(more)) {
		locales[tag] = name;
		files.set(tag, { dir, at });
	}
	await setLocale(choose(), false);
}

// Reads the texts of a language; false when they cannot be had.
async function fetched(tag) {
	try {
		const answer = await fetch(files.get(tag).at, { signal: AbortSignal.timeout(patience) });
		if (!answer.ok) throw new Error(`i18n: ${tag}: ${answer.status}`);
		texts[tag] = (await answer.json()).texts;
	} catch (err) {
		console.warn(err);
	}
	return tag in texts;
}

/** The language in use. */
export function locale() {
	return state.locale;
}

/** Changes the language, keeps the choice and tells everybody who listens. Without its texts nothing changes. */
export async function setLocale(tag, keep = true) {
	if (!(tag in locales) || tag === state.locale || (!(tag in texts) && !(await fetched(tag)))) return;
	state.locale = tag;
	if (keep) storage.set(storageKey, tag);
	for (const f of listeners) f();
}

/** Calls f after every change of language. */
export function onLocale(f) {
	listeners.add(f);
}

function format(Kind, options) {
	const key = `${state.locale} ${Kind.name} ${JSON.stringify(options)}`;
	if (!formats.has(key)) formats.set(key, new Kind(state.locale, options));
	return formats.get(key);
}

/** The text of key with {name} replaced from vars. */
export function t(key, vars = {}) {
	const text = texts[state.locale][key] ?? texts.en[key];
	if (text === undefined) throw new Error(`i18n: no text for ${key}`);
	return text.replace(/\{(\w+)\}/g, (_, name) => String(vars[name] ?? ''));
}

/** The text of key.one or key.other for n, with {name} replaced from vars, too. */
export function plural(key, n, vars = {}) {
	const form = format(Intl.PluralRules).select(n);
	const full = `${key}.${form}`;
	return t(full in texts[state.locale] ? full : `${key}.other`, { ...vars, n: number(n) });
}

export function number(n) {
	return format(Intl.NumberFormat).format(n);
}

/** Hours and minutes. */
export function clock(ms) {
	return format(Intl.DateTimeFormat, { timeStyle: 'short' }).format(ms);
}

/** Date and time in full, for titles. */
export function fullTime(ms) {
	return format(Intl.DateTimeFormat, { dateStyle: 'medium', timeStyle: 'short' }).format(ms);
}

/** The time alone for today, else date and time. */
export function moment(ms, now = Date.now()) {
	return new Date(ms).toDateString() === new Date(now).toDateString() ? clock(ms) : fullTime(ms);
}

/** The time alone for today, else the date alone, both short. */
export function stamp(ms, now = Date.now()) {
	return new Date(ms).toDateString() === new Date(now).toDateString() ? clock(ms) : format(Intl.DateTimeFormat, { dateStyle: 'short' }).format(ms);
}

/** A time to come: the time alone for today, else the day, too. */
export function upcoming(ms, now = Date.now()) {
	if (new Date(ms).toDateString() === new Date(now).toDateString()) return clock(ms);
	return format(Intl.DateTimeFormat, { weekday: 'long', month: 'long', day: 'numeric', hour: 'numeric', minute: '2-digit' }).format(ms);
}

/** The day of a separator: today, yesterday or the date. */
export function day(ms, now = Date.now()) {
	const start = (x) => new Date(x).setHours(0, 0, 0, 0);
	const ago = Math.round((start(now) - start(ms)) / 86_400_000);
	if (ago === 0) return t('messages.today');
	if (ago === 1) return t('messages.yesterday');
	const sameYear = new Date(ms).getFullYear() === new Date(now).getFullYear();
	return format(Intl.DateTimeFormat, { weekday: 'long', month: 'long', day: 'numeric', year: sameYear ? undefined : 'numeric' }).format(ms);
}

/** A language by its name in the language in use: English, 英语. */
export function localeName(tag) {
	try {
		return format(Intl.DisplayNames, { type: 'language' }).of(tag);
	} catch {
		return tag; // not a language tag
	}
}

/** A country by its name in the language in use: Germany, 德国. */
export function regionName(code) {
	try {
		return format(Intl.DisplayNames, { type: 'region' }).of(code);
	} catch {
		return code; // not a country
	}
}

/** A language in two letters. */
export function localeMark(tag) {
	return tag.split('-', 1)[0].slice(0, 3).toUpperCase();
}

/** A waiting time in a few characters: 12 s, 3 min, 2 h. */
export function waited(ms) {
	const s = Math.max(0, Math.floor(ms / 1000));
	const unit = (value, name) => format(Intl.NumberFormat, { style: 'unit', unit: name, unitDisplay: 'short' }).format(value);
	if (s < 60) return unit(s, 'second');
	if (s < 3600) return unit(Math.floor(s / 60), 'minute');
	return unit(Math.floor(s / 3600), 'hour');
}

/**
 * Fills the static texts of a page: data-t (text), data-t-label (aria-label),
 * data-t-placeholder, data-t-title; and the language of the document.
 */
export function translate(root = document) {
	document.documentElement.lang = state.locale;
	document.documentElement.dir = files.get(state.locale)?.dir || 'ltr';
	const apply = (attr, set) => {
		for (const node of root.querySelectorAll(`[${attr}]`)) set(node, t(node.getAttribute(attr)));
	};
	apply('data-t', (node, text) => { node.textContent = text; });
	apply('data-t-label', (node, text) => node.setAttribute('aria-label', text));
	apply('data-t-placeholder', (node, text) => node.setAttribute('placeholder', text));
	apply('data-t-title', (node, text) => node.setAttribute('title', text));
}
